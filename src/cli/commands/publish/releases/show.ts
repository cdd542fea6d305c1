import path from 'node:path';
import type { DestinationConfig } from '../../../../core/config/config.ts';
import { errorRecord, WaybillError } from '../../../../core/lib/errors.ts';
import { formatSize } from '../../../../core/lib/settings/units.ts';
import { compareDirectory } from '../../../../core/publish/compare-directory.ts';
import {
  compareReleases,
  describeReleases,
  releaseDetails,
  type ReleaseDifference,
  type ReleaseView,
} from '../../../../core/releases/describe.ts';
import {
  atDestination,
  type ListedPath,
  listReleases,
  type Place,
  placeOf,
  releaseNamed,
  requireReleasesLayout,
} from '../../../../core/releases/place.ts';
import type { ReleaseId } from '../../../../core/releases/release.ts';
import { readReleases } from '../../../../core/releases/store.ts';
import { switchRefused } from '../../../../core/releases/switch.ts';
import { columns, localTime, type Output, plural } from '../../../output/output.ts';
import type { Io, OptionsFor } from '../../../setup/command.ts';
import {
  type CommandContext,
  givenBundlePath,
  onlyDestination,
  pipelineOf,
  setUp,
  setUpFor,
} from '../../../setup/set-up.ts';
import type { diffCommand, listCommand, showCommand } from './commands.ts';

export type ReleasesOptions = OptionsFor<typeof listCommand>;
type DiffOptions = OptionsFor<typeof diffCommand>;

/** Implements `waybill releases list`. Lists the releases at one bundle path or at all of them. */
export async function showReleases(options: ReleasesOptions, { output }: Io): Promise<number> {
  const { config, context, warnings } = await setUp({ ...setUpFor(options), output });
  const destination = releasesDestination({ config }, options);
  const paths = await atDestination(context, destination, { readOnly: true }, async (root) =>
    listReleases(root, destination, pathOf(options)),
  );
  const about = { pipelineId: options.pipeline, destinationId: destination.id };
  output.result('releases', { ...about, paths, warnings }, () => printPaths(paths, output));
  return 0;
}

function printPaths(paths: readonly ListedPath[], output: Output): void {
  const { style } = output;
  for (const { destinationPath, releases, foreignTarget, channels } of paths) {
    output.data(`${style.bold(`target=${destinationPath}`)}  ${plural(releases.length, 'release')}`);
    if (foreignTarget !== null)
      output.data(`  ${style.red(`the pointer names "${foreignTarget}", which is not a release`)}`);
    for (const { name, release, expiresAt } of channels)
      output.data(`  channel ${style.cyan(name)} → ${release ?? 'nothing'}, until ${localTime(expiresAt)}`);
    for (const line of columns(
      releases.map((release) => row(release, output)),
      '  ',
    ))
      output.data(line);
  }
  if (paths.every(({ releases }) => releases.length === 0)) output.note('nothing is published there yet');
}

function row(release: ReleaseView, { style }: Output): string[] {
  const { id, isCurrent, outputs, bytes, bundle, activatedAt } = release;
  return [
    `${isCurrent ? style.green('→') : ' '} ${id}`,
    outputs === null ? '-' : plural(outputs, 'file'),
    outputs === null ? '-' : formatSize(bytes ?? 0),
    bundle === null ? '-' : bundle.path === '.' ? '' : bundle.path,
    activatedAt === null ? 'never current' : localTime(activatedAt),
    stateOf(release).join(', '),
  ];
}

function stateOf(release: ReleaseView): string[] {
  return [
    ...(release.isCurrent ? ['current'] : []),
    ...release.channels.map((name) => `channel ${name}`),
    ...(release.isLastGood ? ['a rollback goes here'] : []),
    ...(release.isRolledBack ? ['rolled back'] : []),
    ...(release.isBeingRemoved ? ['being removed'] : []),
    ...(release.state === 'complete' ? [] : [release.state]),
  ];
}

/** Implements `waybill releases show`. The exit code is 1 if this release could not be made current. */
export async function showRelease(options: OptionsFor<typeof showCommand>, { output }: Io): Promise<number> {
  const { config, context, warnings } = await setUp({ ...setUpFor(options), output });
  const destination = releasesDestination({ config }, options);
  const { destinationPath, view, details } = await atDestination(
    context,
    destination,
    { readOnly: true },
    async (root) => {
      const place = await placeOf(root, destination, pathOf(options));
      const id = await releaseNamed(place, options.release);
      const { releases } = await describeReleases(place.storage);
      const found = releases.find((release) => release.id === id);
      return { ...place, view: found, details: await releaseDetails(place.storage, id) };
    },
  );
  const error =
    details.unusable === null || view === undefined
      ? null
      : errorRecord(switchRefused({ ...details.unusable, id: view.id }, `"${destinationPath}"`));
  const { outputs } = details;
  const about = { pipelineId: options.pipeline, destinationId: destination.id, destinationPath };
  output.result('release', { ...about, release: { ...view, files: outputs }, error, warnings }, () => {
    const { style } = output;
    const rows = outputs.map(({ path, size, digest }) => [path, formatSize(size), style.dim(digest)]);
    for (const line of columns(rows, '  ')) output.data(line);
    const head = `${view?.id ?? options.release}  ${plural(outputs.length, 'output')}, ${formatSize(view?.bytes ?? 0)}`;
    if (error === null) output.data(`${style.green('whole')}  ${head}`);
    else output.failure('failed', error);
  });
  return error === null ? 0 : 1;
}

/**
 * Implements `waybill releases diff`. Compares the catalogs of two releases, without reading the published
 * files. With `--dir`, the second one is what the directory would be published as.
 */
export async function diffReleases(options: DiffOptions, { output }: Io): Promise<number> {
  const { from, to } = options;
  refuseContradiction(options);
  const { config, context, warnings } = await setUp({ ...setUpFor(options), output });
  const pipeline = pipelineOf(config, options.pipeline);
  const destination = releasesDestination({ config }, options);
  const found = await atDestination(context, destination, { readOnly: true }, async (root) => {
    const place = await placeOf(root, destination, pathOf(options));
    const before = from === undefined ? await currentOf(place) : await releaseNamed(place, from);
    const about = { destinationPath: place.destinationPath, from: before };
    if (options.dir !== undefined) {
      const directory = path.resolve(options.dir);
      const compared = { from: before, directory };
      const difference = await compareDirectory(context, { pipeline, destination, place }, compared);
      return { ...about, to: null, directory: options.dir, ...difference };
    }
    const after = to === undefined ? await currentOf(place) : await releaseNamed(place, to);
    return { ...about, to: after, ...(await compareReleases(place.storage, before, after)) };
  });
  const about = { pipelineId: options.pipeline, destinationId: destination.id };
  output.result('release-diff', { ...about, ...found, warnings }, () =>
    printDifference(found, found.to ?? options.dir ?? '', output),
  );
  return 0;
}

function refuseContradiction({ from, to, dir }: DiffOptions): void {
  if (dir !== undefined && to !== undefined)
    throw new WaybillError('usage', 'a release is compared with another or with --dir, not with both', {
      hint: `leave out "${to}" or --dir`,
    });
  if (dir === undefined && from === undefined)
    throw new WaybillError('usage', 'name the release to compare', {
      hint: 'waybill releases diff ID, or --dir DIRECTORY; `waybill releases list` shows the ids',
    });
}

function printDifference(
  { from, added, changed, removed, same }: ReleaseDifference & { from: ReleaseId },
  to: string,
  { style, data }: Output,
): void {
  for (const name of added) data(`${style.green('add')}     ${name}`);
  for (const name of changed) data(`${style.yellow('change')}  ${name}`);
  for (const name of removed) data(`${style.red('remove')}  ${name}`);
  const counts = `${added.length} added, ${changed.length} changed, ${removed.length} removed`;
  data(`${from} → ${to}: ${counts}, ${plural(same, 'output')} the same`);
}

async function currentOf({ storage, destinationPath }: Place): Promise<ReleaseId> {
  const { current } = await readReleases(storage);
  if (current !== null) return current;
  throw new WaybillError('usage', `"${destinationPath}" has no current release to compare with`, {
    hint: 'name two releases; `waybill releases list` shows them',
  });
}

/** Returns the destination from the options. Throws `usage`, or `no_releases` if it is published in place. */
export function releasesDestination(
  { config }: Pick<CommandContext, 'config'>,
  { pipeline, destination }: Pick<ReleasesOptions, 'pipeline' | 'destination'>,
): DestinationConfig {
  const named = onlyDestination(pipelineOf(config, pipeline), destination);
  requireReleasesLayout(named);
  return named;
}

/** Returns the bundle path from the options, if there is one. Throws a `usage` error if it is invalid. */
export function pathOf({ path }: Pick<ReleasesOptions, 'path'>): string | undefined {
  return path === undefined ? undefined : givenBundlePath(path);
}
