import { compareReleases } from '../../../core/releases/describe.ts';
import { atDestination, placeOf, releaseNamed, type Place } from '../../../core/releases/place.ts';
import { readReleases } from '../../../core/releases/store.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import type { ReleaseId } from '../../../core/releases/release.ts';
import { makeOutput, plural } from '../../output/output.ts';
import { setUp } from '../../setup/set-up.ts';
import { endedBySignal } from '../../process/stop-signal.ts';
import { setUpFor } from './releases-list.ts';
import { pathOf, releasesDestination } from './releases-place.ts';
import type { ReleasesOptions } from './releases-options.ts';

/** `waybill releases diff`, by the catalogs of both: no published file is read. */
export async function diffReleases(
  from: string,
  to: string | undefined,
  options: ReleasesOptions,
): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return endedBySignal(async () => {
    const { config, context, warnings } = await setUp({ ...setUpFor(options), output });
    const destination = releasesDestination({ config }, options);
    const found = await atDestination(context, destination, { readOnly: true }, async (root) => {
      const place = await placeOf(root, destination, pathOf(options));
      const [before, after] = [
        await releaseNamed(place, from),
        to === undefined ? await currentOf(place) : await releaseNamed(place, to),
      ];
      const difference = await compareReleases(place.storage, before, after);
      return { destinationPath: place.destinationPath, from: before, to: after, ...difference };
    });
    if (output.isJson)
      output.json('release-diff', {
        ...{ pipelineId: options.pipeline, destinationId: destination.id },
        ...found,
        warnings,
      });
    else {
      for (const warning of warnings) output.warn(warning);
      const { style, data } = output;
      for (const path of found.added) data(`${style.green('add')}     ${path}`);
      for (const path of found.changed) data(`${style.yellow('change')}  ${path}`);
      for (const path of found.removed) data(`${style.red('remove')}  ${path}`);
      const { added, changed, removed, same } = found;
      const counts = `${added.length} added, ${changed.length} changed, ${removed.length} removed`;
      data(`${found.from} → ${found.to}: ${counts}, ${plural(same, 'output')} the same`);
    }
    return 0;
  });
}

async function currentOf({ storage, destinationPath }: Place): Promise<ReleaseId> {
  const { current } = await readReleases(storage);
  if (current !== null) return current;
  throw new WaybillError('usage', `"${destinationPath}" has no current release to compare with`, {
    hint: 'name two releases; `waybill releases list` shows them',
  });
}
