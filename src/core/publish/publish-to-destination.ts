import type { SourceBundle } from '../bundle/source-bundle.ts';
import { type CatalogState, isCommittedSince } from '../catalog/catalog.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import type { Clock } from '../lib/clock.ts';
import { isFuture } from '../lib/clock-skew.ts';
import { type ErrorRecord, errorRecord, type Finding, finding, WaybillError } from '../lib/errors.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import type { Occurrence } from '../notify/event.ts';
import { describeLocation } from '../storage/backends.ts';
import type { Owner } from '../storage/identity.ts';
import type { Storage } from '../storage/storage.ts';
import type { Span, SpanAttributes } from '../tracing/span.ts';
import { publishBundle } from './publish-bundle.ts';
import { asAborted, type BundlePublication, type Decided, type PublishRequest } from './publish-request.ts';
import { emptyDestination, futureBundle, withDestinationFailure } from './results/action-result.ts';
import { destinationFailure, publicationOccurrence } from './results/occurrences.ts';
import type { ActionResult, DestinationResult } from './results/result.ts';
import type { PublishedPath } from './root-index/listed-changes.ts';
import type { MappedBundle, Selection, Selector } from './select-bundles.ts';

/**
 * Publishes the selected bundles to a destination, one after the other, and sends a notification for each.
 * Never throws; failures are part of the result.
 */
export async function publishToDestination(
  context: CoreContext,
  owner: Owner,
  destination: DestinationConfig,
  selector: Selector,
  request: PublishRequest,
): Promise<DestinationResult> {
  const { runId = null } = request;
  const span = destinationSpan(context, owner, request);
  const notify = (occurrence: Occurrence | null): void => {
    if (!request.dryRun && occurrence !== null) context.notify?.(occurrence, span?.trace);
  };
  const result = emptyDestination(destination);
  let failure: ErrorRecord | null = null;
  const add = ({ bundle, action, isOwn }: Published): void => {
    result.actions.push(action);
    notify(publicationOccurrence(owner, bundle, action, runId, { reportsUnchanged: isOwn }));
    const created = createdWarnings(bundle, action, context.clock);
    for (const { message } of created) context.log.warn({ destination: destination.id }, message);
    result.warnings.push(
      ...created,
      ...rootWarnings(destination, action, request.dryRun),
      ...unkeptWarnings(action),
    );
    request.onProgress?.({ type: 'done', destinationId: destination.id, result: action });
  };
  try {
    const { bundles, warnings, error } = await selector.select(destination);
    for (const warning of warnings) result.warnings.push(warning);
    failure = error;
    const { selectAgain } = selector;
    const newest = async (again: NonNullable<typeof selectAgain>): Promise<SourceBundle> => {
      const selection = await again(destination);
      result.warnings = [...selection.warnings];
      return onlyBundle(selection);
    };
    const shared = {
      owner,
      destination,
      warn: (warning: Finding): void => void result.warnings.push(warning),
      ...(selectAgain === null || destination.mapping !== 'fixed'
        ? {}
        : { selectAgain: async () => newest(selectAgain) }),
    };
    await publishAll(context, shared, bundles, request, add);
  } catch (error) {
    context.log.error({ err: error, destination: destination.id }, 'destination failed');
    failure = errorRecord(error);
  }
  if (failure !== null) notify(destinationFailure(owner, failure, runId));
  if (result.actions.some(({ error }) => error !== null)) result.status = 'failed';
  const ended = failure === null ? result : withDestinationFailure(result, destination, failure);
  endSpan(span, ended);
  return ended;
}

/**
 * Publishes the bundles until the signal aborts. If there are none, the destination is not even opened.
 * Throws the signal's reason if it aborted before all bundles were published and no result shows that.
 */
async function publishAll(
  context: CoreContext,
  shared: Omit<BundlePublication, 'bundle' | 'destinationPath'>,
  bundles: readonly MappedBundle<SourceBundle>[],
  request: PublishRequest,
  add: (published: Published) => void,
): Promise<void> {
  if (bundles.length === 0) return;
  const { dryRun } = request;
  const decided: PublishedPath[] = [];
  await withReleasers(async (onRelease) => {
    const { location, maxRate } = shared.destination;
    const storage = await context.openStorage(location, { readOnly: dryRun, dryRun, maxRate });
    onRelease(() => storage.close());
    for (const [index, { bundle, destinationPath }] of bundles.entries()) {
      const published = await publishSelected(
        context,
        storage,
        { ...shared, bundle, destinationPath },
        request,
      );
      add(published);
      decided.push({ destinationPath, action: published.action, state: published.state });
      if (context.signal?.aborted !== true || index === bundles.length - 1) continue;
      // The remaining bundles are skipped, so make sure that the abort is reported.
      if (published.action.error === null) throw asAborted(context.signal.reason);
      return;
    }
    await listAtRoot(context, storage, shared, decided, request);
  });
}

interface Published {
  /** The bundle that was published. It may be a newer one than was first selected. */
  bundle: SourceBundle;
  action: ActionResult;
  /** Whether an interrupted attempt of this same run has already committed the outputs. */
  isOwn: boolean;
  /** The state on which the last decision was based. */
  state: CatalogState | null;
}

/** Updates the root index. The code is only loaded if the destination has one. */
async function listAtRoot(
  context: CoreContext,
  storage: Storage,
  { owner, destination, warn }: Omit<BundlePublication, 'bundle' | 'destinationPath'>,
  decided: readonly PublishedPath[],
  { dryRun, channel }: PublishRequest,
): Promise<void> {
  // Channels are not listed in the root index.
  if (!destination.rootIndex || dryRun || channel !== undefined) return;
  const { listPublished } = await import('./root-index/listed-changes.ts');
  const warning = await listPublished(context, storage, { owner, destination }, decided);
  if (warning !== null) warn?.(warning);
}

async function publishSelected(
  context: CoreContext,
  storage: Storage,
  publication: BundlePublication,
  request: PublishRequest,
): Promise<Published> {
  const { selectAgain, owner } = publication;
  let { bundle } = publication;
  let isOwn = false;
  let state: CatalogState | null = null;
  const following =
    selectAgain === undefined ? {} : { selectAgain: async () => (bundle = await selectAgain()) };
  const { reportCommitsSince } = request;
  const watching = {
    onDecided: (decided: Decided): void => {
      ({ state } = decided.stored);
      if (reportCommitsSince !== undefined) isOwn = isCommittedSince(state, owner, reportCommitsSince);
      request.onDecided?.(decided);
    },
  };
  const action = await publishBundle(
    context,
    storage,
    { ...publication, ...following },
    { ...request, ...watching },
  );
  const { destination, destinationPath } = publication;
  const url = action.error === null ? publicUrl(destination, destinationPath, request.channel ?? null) : null;
  return { bundle, action: { ...action, url }, isOwn, state };
}

/**
 * Returns the one bundle in the selection. Throws the selection's error, or `bundle_not_found` if it is
 * empty.
 */
function onlyBundle({ bundles: [selected], error }: Selection): SourceBundle {
  if (error !== null) {
    const { code, message, hint, findings } = error;
    throw new WaybillError(code, message, { findings, ...(hint === null ? {} : { hint }) });
  }
  if (selected !== undefined) return selected.bundle;
  throw new WaybillError('bundle_not_found', 'the source no longer has a bundle');
}

/**
 * Warns if the bundle was created in the future. Bundles created between now and then would look older, so
 * they might not be published.
 */
function createdWarnings(
  { created }: SourceBundle,
  { destinationPath }: ActionResult,
  clock: Clock,
): Finding[] {
  if (!isFuture(Date.parse(created), clock)) return [];
  const message = `target=${destinationPath}: "created" of the bundle is in the future (${created}): until then, bundles that are made now count as older; correct the clock of the producer and publish again`;
  return [finding('warning', futureBundle, message)];
}

function unkeptWarnings({ destinationPath, unkept: [first, ...others] }: ActionResult): Finding[] {
  if (first === undefined) return [];
  const what = others.length === 0 ? 'is' : `and ${others.length} more are`;
  const message = `target=${destinationPath}: "${first}" ${what} too large to be restored if the publication fails midway; the next run would finish it`;
  return [finding('warning', 'cannot_be_undone', message, { file: first })];
}

function rootWarnings(destination: DestinationConfig, { action }: ActionResult, dryRun: boolean): Finding[] {
  if (destination.mapping !== 'fixed' || destination.releases !== null) return [];
  if (action !== 'force_replace' && action !== 'replace_catalog') return [];
  const what =
    action === 'force_replace'
      ? 'everything below the destination root'
      : 'the content that this pipeline published at the destination root';
  const message = `target=.: ${what} ${dryRun ? 'would be' : 'was'} replaced (${describeLocation(destination.location)})`;
  return [finding('warning', 'destination_root_replaced', message)];
}

/** Starts a span for one destination of a run. Returns null in a dry run or if tracing is off. */
export function destinationSpan(
  { tracer }: Pick<CoreContext, 'tracer'>,
  { pipelineId, destinationId }: Owner,
  { dryRun, runId, trace }: Pick<PublishRequest, 'dryRun' | 'runId' | 'trace'>,
): Span | null {
  if (tracer?.isOn !== true || dryRun) return null;
  const run: SpanAttributes = runId === undefined ? {} : { 'waybill.run_id': runId };
  return tracer.start('destination', {
    parent: trace,
    kind: 'client',
    attributes: { 'waybill.pipeline_id': pipelineId, 'waybill.destination_id': destinationId, ...run },
  });
}

/** Ends the span and records how the publication went. */
export function endSpan(span: Span | null, { actions: all, error }: DestinationResult): void {
  if (span === null) return;
  const failure = error ?? all.find((action) => action.error !== null)?.error ?? null;
  const actions = all.filter(({ bundle }) => bundle !== null);
  if (failure !== null) span.fail(failure.code);
  const [only, ...others] = actions;
  if (only !== undefined && others.length === 0) {
    span.set({ 'waybill.action': only.action });
    if (only.release !== null) span.set({ 'waybill.release': only.release });
  }
  span.set({
    'waybill.bundles': actions.length,
    'waybill.outputs_written': sum(actions.map(({ outputsWritten }) => outputsWritten)),
    'waybill.outputs_linked': sum(actions.map(({ outputsLinked }) => outputsLinked)),
    'waybill.bytes_written': sum(actions.map(({ bytesWritten }) => bytesWritten)),
  });
  span.end();
}

const sum = (counts: readonly number[]): number => counts.reduce((all, count) => all + count, 0);

/**
 * Returns the public URL of a bundle path, ending with `/`, or null if it has none. It is based on
 * `public_base_url`. A channel can have its own base URL. If it does not, it has a URL only if the web server
 * exposes the destination root (`current_in_url`), where the channel is a directory.
 *
 * @param channel The channel to publish to; null for the current content.
 */
export function publicUrl(
  { publicBaseUrl, releases, location }: Pick<DestinationConfig, 'publicBaseUrl' | 'releases' | 'location'>,
  destinationPath: string,
  channel: string | null,
): string | null {
  const path = destinationPath === '.' ? [] : destinationPath.split('/');
  const at = (base: string | null, ...more: string[]): string | null =>
    base === null ? null : base + [...path, ...more].map((name) => `${encodeURIComponent(name)}/`).join('');
  // On S3, a pointer is an object, so it does not work as part of a URL.
  const isServedAsItIs = releases?.currentInUrl === true && location.backend !== 's3';
  if (channel === null) return at(publicBaseUrl, ...(releases?.currentInUrl === true ? ['current'] : []));
  const own = releases?.channels.find(({ name }) => name === channel)?.publicBaseUrl ?? null;
  return own === null && isServedAsItIs ? at(publicBaseUrl, channel) : at(own);
}
