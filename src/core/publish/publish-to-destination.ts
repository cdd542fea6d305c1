import type { SourceBundle } from '../bundle/source-bundle.ts';
import { type CatalogState, isCommittedSince } from '../catalog/catalog.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import { type ErrorRecord, errorRecord, type Finding, recordedError, WaybillError } from '../lib/errors.ts';
import { withReleasers } from '../lib/lifecycle.ts';
import type { Occurrence } from '../notify/event.ts';
import type { Owner } from '../storage/identity.ts';
import type { Storage } from '../storage/storage.ts';
import type { Span } from '../tracing/span.ts';
import { publishBundle } from './publish-bundle.ts';
import { abortError, type BundlePublication, type Decided, type PublishRequest } from './publish-request.ts';
import { emptyDestination, withDestinationFailure } from './results/action-result.ts';
import { destinationFailure, publicationOccurrence } from './results/occurrences.ts';
import { publicUrl } from './results/public-url.ts';
import type { ActionResult, DestinationResult } from './results/result.ts';
import { destinationSpan, endSpan } from './results/spans.ts';
import { createdWarnings, rootWarnings, unkeptWarnings } from './results/warnings.ts';
import type { PathOutcome } from './root-index/listed-changes.ts';
import type { BundleSelection, MappedBundle, Selector } from './select-bundles.ts';

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
  return new DestinationPublication(context, { owner, destination, selector, request }).run();
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

class DestinationPublication {
  readonly #context: CoreContext;
  readonly #owner: Owner;
  readonly #destination: DestinationConfig;
  readonly #selector: Selector;
  readonly #request: PublishRequest;
  readonly #span: Span | null;
  readonly #result: DestinationResult;

  constructor(
    context: CoreContext,
    parts: { owner: Owner; destination: DestinationConfig; selector: Selector; request: PublishRequest },
  ) {
    this.#context = context;
    this.#owner = parts.owner;
    this.#destination = parts.destination;
    this.#selector = parts.selector;
    this.#request = parts.request;
    this.#span = destinationSpan(context, parts.owner, parts.request);
    this.#result = emptyDestination(parts.destination);
  }

  async run(): Promise<DestinationResult> {
    return this.#end(await this.#publishSelected());
  }

  /** Returns the error that affects the whole destination, or null. */
  async #publishSelected(): Promise<ErrorRecord | null> {
    try {
      const { bundles, warnings, error } = await this.#selector.select(this.#destination);
      for (const warning of warnings) this.#warn(warning);
      // Without bundles, the destination is not even opened.
      if (bundles.length > 0) await this.#publishAll(bundles);
      return error;
    } catch (error) {
      this.#context.log.error({ err: error, destination: this.#destination.id }, 'destination failed');
      return errorRecord(error);
    }
  }

  /**
   * Publishes the bundles until the signal aborts. Throws the signal's reason if it aborted before all
   * bundles were published and no result shows that.
   */
  async #publishAll(bundles: readonly MappedBundle<SourceBundle>[]): Promise<void> {
    const { signal } = this.#context;
    const { dryRun } = this.#request;
    const { location, maxRate } = this.#destination;
    await withReleasers(async (onRelease) => {
      const storage = await this.#context.openStorage(location, { readOnly: dryRun, dryRun, maxRate });
      onRelease(() => storage.close());
      const paths: PathOutcome[] = [];
      for (const [index, selected] of bundles.entries()) {
        const published = await this.#publish(storage, selected);
        this.#report(published);
        const { action, state } = published;
        paths.push({ destinationPath: selected.destinationPath, action, state });
        if (signal?.aborted !== true || index === bundles.length - 1) continue;
        // The remaining bundles are skipped, so make sure that the abort is reported.
        if (action.error === null) throw abortError(signal.reason);
        return;
      }
      await this.#listAtRoot(storage, paths);
    });
  }

  /** Publishes the selected bundle, or the newest one if it has been replaced. */
  async #publish(
    storage: Storage,
    { bundle: selected, destinationPath }: MappedBundle<SourceBundle>,
  ): Promise<Published> {
    const destination = this.#destination;
    const { channel = null, reportCommitsSince } = this.#request;
    const published = { bundle: selected, isOwn: false, state: null as CatalogState | null };
    const { selectAgain } = this.#selector;
    const publication: BundlePublication = {
      bundle: selected,
      owner: this.#owner,
      destination,
      destinationPath,
      warn: (warning) => this.#warn(warning),
      selectAgain:
        selectAgain === null || destination.mapping !== 'fixed'
          ? undefined
          : async () => (published.bundle = this.#newest(await selectAgain(destination))),
    };
    const onDecided = (decided: Decided): void => {
      const { state } = decided.stored;
      published.state = state;
      if (reportCommitsSince !== undefined)
        published.isOwn = isCommittedSince(state, this.#owner, reportCommitsSince);
      this.#request.onDecided?.(decided);
    };
    const request = { ...this.#request, onDecided };
    const action = await publishBundle(this.#context, storage, publication, request);
    const url = action.error === null ? publicUrl(destination, destinationPath, channel) : null;
    return { ...published, action: { ...action, url } };
  }

  /** Returns the bundle of a new selection, whose warnings replace those of the previous one. */
  #newest(selection: BundleSelection): SourceBundle {
    this.#result.warnings = [...selection.warnings];
    return onlyBundle(selection);
  }

  /** Adds a bundle to the result, and reports it to the notifiers, the log and the progress. */
  #report({ bundle, action, isOwn }: Published): void {
    const { runId = null, dryRun, onProgress } = this.#request;
    const { id: destinationId } = this.#destination;
    this.#result.actions.push(action);
    this.#notify(publicationOccurrence(this.#owner, bundle, action, runId, { reportsUnchanged: isOwn }));
    const created = createdWarnings(bundle, action, this.#context.clock);
    for (const { message } of created) this.#context.log.warn({ destination: destinationId }, message);
    const root = rootWarnings(this.#destination, action, dryRun);
    this.#warn(...created, ...root, ...unkeptWarnings(action));
    onProgress?.({ type: 'done', destinationId, result: action });
  }

  /** Updates the root index. The code is only loaded if the destination has one. */
  async #listAtRoot(storage: Storage, paths: readonly PathOutcome[]): Promise<void> {
    const { dryRun, channel } = this.#request;
    const destination = this.#destination;
    // Channels are not listed in the root index.
    if (!destination.rootIndex || dryRun || channel !== undefined) return;
    const { listPublished } = await import('./root-index/listed-changes.ts');
    const index = { owner: this.#owner, destination };
    const warning = await listPublished(this.#context, storage, index, paths);
    if (warning !== null) this.#warn(warning);
  }

  #warn(...warnings: readonly Finding[]): void {
    this.#result.warnings.push(...warnings);
  }

  #notify(occurrence: Occurrence | null): void {
    if (this.#request.dryRun || occurrence === null) return;
    this.#context.notify?.(occurrence, this.#span?.trace);
  }

  /** Completes the result. `failure` is the error that affects the whole destination, or null. */
  #end(failure: ErrorRecord | null): DestinationResult {
    const result = this.#result;
    if (failure !== null) this.#notify(destinationFailure(this.#owner, failure, this.#request.runId ?? null));
    if (result.actions.some(({ error }) => error !== null)) result.status = 'failed';
    const ended = failure === null ? result : withDestinationFailure(result, this.#destination, failure);
    endSpan(this.#span, ended);
    return ended;
  }
}

/**
 * Returns the one bundle in the selection. Throws the selection's error, or `bundle_not_found` if it is
 * empty.
 */
function onlyBundle({ bundles: [selected], error }: BundleSelection): SourceBundle {
  if (error !== null) throw recordedError(error);
  if (selected !== undefined) return selected.bundle;
  throw new WaybillError('bundle_not_found', 'the source no longer has a bundle');
}
