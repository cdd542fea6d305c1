import path from 'node:path';
import type { DestinationConfig, PipelineConfig } from '../../../../core/config/config.ts';
import { WaybillError } from '../../../../core/lib/errors.ts';
import { inCamelCase } from '../../../../core/lib/json-document.ts';
import { formatSize } from '../../../../core/lib/settings/sizes-and-durations.ts';
import { plural, shellQuoted } from '../../../../core/lib/text.ts';
import { compareDirectory } from '../../../../core/publish/compare-directory.ts';
import {
  type BundlePlace,
  type ListedPath,
  listReleases,
  openBundlePath,
  releaseNamed,
  requireReleasesLayout,
  withDestination,
} from '../../../../core/releases/bundle-place.ts';
import {
  compareReleases,
  type ReleaseDifference,
  type ReleaseView,
} from '../../../../core/releases/describe.ts';
import { type ShownRelease, showRelease as shownRelease } from '../../../../core/releases/details.ts';
import type { ReleaseId } from '../../../../core/releases/release.ts';
import { readReleases } from '../../../../core/releases/releases-store.ts';
import { columns, localTime, type Output } from '../../../output/output.ts';
import type { Io, OptionsFor } from '../../../setup/command.ts';
import { bundlePathArgument, onlyDestination, setUpPipeline } from '../../../setup/set-up.ts';
import type { diffCommand, EitherFlags, listCommand, showCommand } from './commands.ts';
import { atDaemon, daemonOf, localFlags } from './place-flags.ts';

type DiffOptions = OptionsFor<typeof diffCommand>;

/** Implements `waybill releases list`. Lists the releases at one bundle path or at all of them. */
export async function showReleases(flags: OptionsFor<typeof listCommand>, io: Io): Promise<number> {
  const { output } = io;
  const daemon = daemonOf(flags);
  if (daemon !== null)
    return atDaemon(daemon, io, async ({ client, place }) => {
      const document = await client.releases.list(place);
      const { paths } = inCamelCase(document) as { paths: ListedPath[] };
      output.result('releases', document, () => printPaths(paths, output));
      return 0;
    });
  const options = localFlags(flags);
  const { context, warnings, pipeline } = await setUpPipeline(options, { output });
  const destination = releasesDestination(pipeline, options);
  const paths = await withDestination(context, destination, { readOnly: true }, async (root) =>
    listReleases(root, destination, pathOf(options)),
  );
  const about = { pipelineId: pipeline.id, destinationId: destination.id };
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
export async function showRelease(flags: OptionsFor<typeof showCommand>, io: Io): Promise<number> {
  const { output } = io;
  const daemon = daemonOf(flags);
  if (daemon !== null)
    return atDaemon(daemon, io, async ({ client, place }) => {
      const document = await client.releases.show(place, flags.release);
      return printRelease(document, inCamelCase(document) as ShownRelease, output);
    });
  const options = { ...flags, ...localFlags(flags) };
  const { context, warnings, pipeline } = await setUpPipeline(options, { output });
  const destination = releasesDestination(pipeline, options);
  const choice = { destination, path: pathOf(options) };
  const shown = await withDestination(context, destination, { readOnly: true }, async (root) =>
    shownRelease(root, choice, options.release),
  );
  const about = { pipelineId: pipeline.id, destinationId: destination.id };
  return printRelease({ ...about, ...shown, warnings }, shown, output);
}

function printRelease(document: object, { release, error }: ShownRelease, output: Output): number {
  output.result('release', document, () => {
    const { style } = output;
    const rows = release.files.map(({ path, size, digest }) => [path, formatSize(size), style.dim(digest)]);
    for (const line of columns(rows, '  ')) output.data(line);
    const amount = `${plural(release.files.length, 'output')}, ${formatSize(release.bytes ?? 0)}`;
    if (error === null) output.data(`${style.green('whole')}  ${release.id}  ${amount}`);
    else output.failure('failed', error);
  });
  return error === null ? 0 : 1;
}

/**
 * Implements `waybill releases diff`. Compares the catalogs of two releases, without reading the published
 * files. With `--dir`, the second one is what the directory would be published as.
 */
export async function diffReleases(flags: DiffOptions, io: Io): Promise<number> {
  const { from } = flags;
  const { output } = io;
  refuseContradiction(flags);
  const daemon = daemonOf(flags);
  if (daemon !== null && flags.dir !== undefined) throw comparedBy(flags.dir, daemon.to);
  if (daemon !== null)
    return atDaemon(daemon, io, async ({ client, place }) => {
      const document = await client.releases.diff(place, from ?? 'current', flags.with ?? 'current');
      printDifference(document, document.to ?? '', document, output);
      return 0;
    });
  const options = { ...flags, ...localFlags(flags) };
  const { context, warnings, pipeline } = await setUpPipeline(options, { output });
  const destination = releasesDestination(pipeline, options);
  const found = await withDestination(context, destination, { readOnly: true }, async (root) => {
    const place = await openBundlePath(root, destination, pathOf(options));
    const before = from === undefined ? await currentOf(place) : await releaseNamed(place, from);
    const about = { destinationPath: place.destinationPath, from: before };
    if (options.dir !== undefined) {
      const directory = path.resolve(options.dir);
      const compared = { from: before, directory };
      const difference = await compareDirectory(context, { pipeline, destination, place }, compared);
      return { ...about, to: null, directory: options.dir, ...difference };
    }
    const after = flags.with === undefined ? await currentOf(place) : await releaseNamed(place, flags.with);
    return { ...about, to: after, ...(await compareReleases(place.storage, before, after)) };
  });
  const about = { pipelineId: pipeline.id, destinationId: destination.id };
  printDifference(found, found.to ?? options.dir ?? '', { ...about, ...found, warnings }, output);
  return 0;
}

function comparedBy(directory: string, url: string): WaybillError {
  return new WaybillError('usage', `a daemon cannot read "${directory}" to compare it`, {
    hint: `waybill push ${shellQuoted(directory)} --to ${url} --dry-run lists the changes that a push would make`,
  });
}

function refuseContradiction({ from, with: to, dir }: DiffOptions): void {
  if (dir !== undefined && to !== undefined)
    throw new WaybillError('usage', 'a release is compared with another or with --dir, not with both', {
      hint: `leave out "${to}" or --dir`,
    });
  if (dir === undefined && from === undefined)
    throw new WaybillError('usage', 'name the release to compare', {
      hint: 'waybill releases diff ID, or --dir DIRECTORY; for the ids: waybill releases list',
    });
}

function printDifference(
  { from, added, changed, removed, same }: ReleaseDifference & { from: string },
  to: string,
  document: object,
  output: Output,
): void {
  const { style, data } = output;
  output.result('release-diff', document, () => {
    for (const name of added) data(`${style.green('add')}     ${name}`);
    for (const name of changed) data(`${style.yellow('change')}  ${name}`);
    for (const name of removed) data(`${style.red('remove')}  ${name}`);
    const counts = `${added.length} added, ${changed.length} changed, ${removed.length} removed`;
    data(`${from} → ${to}: ${counts}, ${plural(same, 'output')} the same`);
  });
}

async function currentOf({ storage, destinationPath }: BundlePlace): Promise<ReleaseId> {
  const { current } = await readReleases(storage);
  if (current !== null) return current;
  throw new WaybillError('usage', `"${destinationPath}" has no current release to compare with`, {
    hint: 'name two releases; to list them: waybill releases list',
  });
}

/** Returns the destination from the options. Throws `usage`, or `no_releases` if it is published in place. */
export function releasesDestination(
  pipeline: PipelineConfig,
  { destination }: Pick<EitherFlags, 'destination'>,
): DestinationConfig {
  const named = onlyDestination(pipeline, destination);
  requireReleasesLayout(named);
  return named;
}

/** Returns the bundle path from the options, if there is one. Throws a `usage` error if it is invalid. */
export function pathOf({ path }: Pick<EitherFlags, 'path'>): string | undefined {
  return path === undefined ? undefined : bundlePathArgument(path);
}
