import type { ReleaseView } from '../../../core/releases/describe.ts';
import { atDestination, listReleases, type ListedPath } from '../../../core/releases/place.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import { columns, makeOutput, plural, type Output } from '../../output/output.ts';
import { localTime } from '../../output/local-time.ts';
import { setUp } from '../../setup/set-up.ts';
import { endedBySignal } from '../../process/stop-signal.ts';
import { pathOf, releasesDestination } from './releases-place.ts';
import type { ReleasesOptions } from './releases-options.ts';

/** `waybill releases list`: of one bundle path, or of all. */
export async function showReleases(options: ReleasesOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return endedBySignal(async () => {
    const { config, context, warnings } = await setUp({ ...setUpFor(options), output });
    const destination = releasesDestination({ config }, options);
    const paths = await atDestination(context, destination, { readOnly: true }, async (root) =>
      listReleases(root, destination, pathOf(options)),
    );
    const about = { pipelineId: options.pipeline, destinationId: destination.id };
    if (output.isJson) output.json('releases', { ...about, paths, warnings });
    else {
      for (const warning of warnings) output.warn(warning);
      print(paths, output);
    }
    return 0;
  });
}

export function setUpFor({ config, pipeline, verbose }: ReleasesOptions): {
  config: string;
  pipelineIds: string[];
  verbose: boolean;
} {
  return { config, pipelineIds: [pipeline], verbose };
}

function print(paths: readonly ListedPath[], output: Output): void {
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
    bundle === null ? '-' : bundle.path,
    activatedAt === null ? 'never current' : `since ${localTime(activatedAt)}`,
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
