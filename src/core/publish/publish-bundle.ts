import type { OutputRecord } from '../catalog/catalog.ts';
import { destinationBusy } from '../catalog/lease/lease.ts';
import type { CoreContext } from '../context.ts';
import { WaybillError } from '../lib/errors.ts';
import { enclosingRelease } from '../releases/release.ts';
import { storedBody } from '../storage/body.ts';
import { keyOf, parseBundlePath } from '../storage/key.ts';
import type { Body, Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';
import { InPlaceLayout } from './layouts/in-place-layout.ts';
import {
  Candidate,
  type LayoutDecision,
  type ObservedState,
  type PublicationLayout,
  type PublicationTask,
} from './layouts/layout.ts';
import { asLayoutChange } from './layouts/migration.ts';
import { ReleasesLayout } from './layouts/releases-layout.ts';
import { planOutputs, signingOf } from './outputs.ts';
import { abortedOr, type BundlePublication, type PublishRequest } from './publish-request.ts';
import { failedResult } from './results/action-result.ts';
import type { ActionResult } from './results/result.ts';

/** How many times to start over if other processes keep changing the bundle path. */
const maxRounds = 10;

/**
 * Publishes one bundle to one destination. A dry run only reports the plan. `root` is rooted at the
 * destination root. If the process is killed halfway through, the next run finishes the work. Never throws;
 * failures are returned as the action `error`.
 */
export async function publishBundle(
  context: CoreContext,
  root: Storage,
  publication: BundlePublication,
  request: PublishRequest,
): Promise<ActionResult> {
  const { destination, destinationPath } = publication;
  const { releases } = destination;
  const channel = releases?.channels.find(({ name }) => name === request.channel) ?? null;
  const candidate = new Candidate(publication);
  const publish = async (): Promise<ActionResult> => {
    refuseWithinRelease(destinationPath);
    const storage = subdirectory(root, parseBundlePath(destinationPath));
    const task = { context, root, storage, publication, request };
    return releases === null
      ? publishIn(new InPlaceLayout(task), task, candidate)
      : publishIn(new ReleasesLayout(task, releases, channel), task, candidate);
  };
  const result = await publish().catch((error: unknown) => {
    const { path } = candidate.bundle;
    context.log.error({ err: error, destination: destination.id, bundle: path }, 'publication failed');
    const failure = abortedOr(error, context.signal);
    return failedResult(path, destinationPath, candidate.planned, failure);
  });
  return { ...result, channel: channel?.name ?? null };
}

/**
 * Observes the bundle path, decides and publishes, and starts over if another process gets in the way. A
 * layout migration counts as a round of its own. Throws `destination_busy` after ten rounds.
 */
async function publishIn<S extends ObservedState, D extends LayoutDecision>(
  layout: PublicationLayout<S, D>,
  { context, storage, publication, request }: PublicationTask,
  candidate: Candidate,
): Promise<ActionResult> {
  let hasMigrated = false;
  for (let round = 1; round <= maxRounds; round += 1) {
    const observed = await layout.observe(candidate);
    await candidate.update(observed);
    const { state } = observed.stored;
    candidate.planned = await planOutputs(candidate.bundle, {
      owner: publication.owner,
      destination: publication.destination,
      signing: await signingOf(context, publication, request),
      published: async (record) => publishedFile(observed.base ?? null, record),
      destinationPath: layout.urlPath,
      recorded: state.kind === 'valid' ? state.catalog.outputs : [],
      reading: request.reading,
    });
    // The decision has been reported already, before the migration.
    const options = hasMigrated ? { ...request, onDecided: undefined } : request;
    const decision = await layout.decide(observed, candidate, options);
    if (round === 1) reportPlan(request, publication, decision);
    const { migration } = decision;
    if (migration !== null && !request.dryRun) {
      hasMigrated = (await migration.execute()) || hasMigrated;
      continue;
    }
    const result = request.dryRun
      ? await layout.preview(decision, candidate)
      : await layout.execute(decision, candidate);
    if (result === null) continue;
    const isChange = hasMigrated || migration !== null;
    return isChange ? asLayoutChange(result, layout.otherLayout, publication, request) : result;
  }
  throw destinationBusy(storage, null);
}

/**
 * Refuses to publish inside a release, where readers of the release would see the files and where they would
 * be deleted along with it. Throws `nested_managed_path`.
 */
function refuseWithinRelease(destinationPath: string): void {
  const release = enclosingRelease(destinationPath);
  if (release === null) return;
  throw new WaybillError(
    'nested_managed_path',
    destinationPath === release
      ? `"${destinationPath}" is the path of a release, and releases never change`
      : `"${destinationPath}" lies in "${release}", which is the path of a release, and releases never change`,
    { hint: 'give the bundle another path: the name in its manifest, or its directory in the source' },
  );
}

async function publishedFile(base: Storage | null, { path, size }: OutputRecord): Promise<Body | null> {
  if (base === null) return null;
  const key = keyOf(path);
  const found = await base.stat(key);
  return found?.type === 'file' && found.size === size ? storedBody(base, { key, size }) : null;
}

function reportPlan(
  { onProgress }: PublishRequest,
  { destination, destinationPath }: BundlePublication,
  { plan, writes }: LayoutDecision,
): void {
  onProgress?.({
    type: 'planned',
    destinationId: destination.id,
    destinationPath,
    action: plan.action,
    outputs: writes.length,
    bytes: writes.reduce((sum, { size }) => sum + size, 0),
  });
}
