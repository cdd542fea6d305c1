import { atDestination } from '../../../core/releases/place.ts';
import { tidyDestination, type TidiedPath } from '../../../core/publish/layouts/tidy-releases.ts';
import { makeOutput, plural, type Output } from '../../output.ts';
import { setUp } from '../../set-up.ts';
import { untilStopped } from '../../stop-signal.ts';
import { setUpFor } from './list.ts';
import { pathOf, releasesDestination } from './place.ts';
import type { SwitchOptions } from './releases-options.ts';

/** `waybill releases tidy`: at one bundle path, or at all of the destination. */
export async function tidyReleases(options: SwitchOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return untilStopped(async (signal) => {
    const { config, context, warnings } = await setUp({ ...setUpFor(options), output, signal });
    const destination = releasesDestination({ config }, options);
    const { dryRun } = options;
    const paths = await atDestination(context, destination, { readOnly: dryRun }, async (root) =>
      tidyDestination(context, root, destination, { dryRun, path: pathOf(options) ?? null }),
    );
    const about = { pipelineId: options.pipeline, destinationId: destination.id };
    if (output.isJson) output.json('releases-tidied', { dryRun, ...about, paths, warnings });
    else {
      for (const warning of warnings) output.warn(warning);
      print(paths, dryRun, output);
    }
    return 0;
  });
}

function print(paths: readonly TidiedPath[], dryRun: boolean, { data, note, style }: Output): void {
  for (const { destinationPath, channels, releases } of paths) {
    const gone = [
      ...channels.map((name) => `channel ${name}`),
      ...(releases.length === 0 ? [] : [`${plural(releases.length, 'release')} (${releases.join(', ')})`]),
    ];
    const end = dryRun ? '; nothing was changed' : '';
    data(
      `${style.green(dryRun ? 'dry run' : 'removed')}  target=${destinationPath}: ${gone.join(', ')}${end}`,
    );
  }
  if (paths.length === 0) note('there is nothing to remove');
}
