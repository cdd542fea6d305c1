import { describeReleases, releaseDetails } from '../../../core/releases/describe.ts';
import { atDestination, placeOf, releaseNamed } from '../../../core/releases/place.ts';
import { switchRefused } from '../../../core/releases/switch.ts';
import { errorRecord } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/units.ts';
import { columns, makeOutput, plural } from '../../output.ts';
import { setUp } from '../../set-up.ts';
import { endedBySignal } from '../../stop-signal.ts';
import { setUpFor } from './list.ts';
import { pathOf, releasesDestination } from './place.ts';
import type { ReleasesOptions } from './releases-options.ts';

/** `waybill releases show`: fails if the release could not become current. */
export async function showRelease(name: string, options: ReleasesOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return endedBySignal(async () => {
    const { config, context, warnings } = await setUp({ ...setUpFor(options), output });
    const destination = releasesDestination({ config }, options);
    const { destinationPath, view, details } = await atDestination(
      context,
      destination,
      { readOnly: true },
      async (root) => {
        const place = await placeOf(root, destination, pathOf(options));
        const id = await releaseNamed(place, name);
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
    if (output.isJson)
      output.json('release', {
        ...{ pipelineId: options.pipeline, destinationId: destination.id, destinationPath },
        ...{ release: { ...view, files: outputs }, error, warnings },
      });
    else {
      for (const warning of warnings) output.warn(warning);
      const rows = outputs.map(({ path, size, digest }) => [
        path,
        formatSize(size),
        output.style.dim(digest),
      ]);
      for (const line of columns(rows, '  ')) output.data(line);
      const head = `${view?.id ?? name}  ${plural(outputs.length, 'output')}, ${formatSize(view?.bytes ?? 0)}`;
      if (error === null) output.data(`${output.style.green('whole')}  ${head}`);
      else {
        output.data(`${output.style.red('failed')}  ${error.message}`);
        if (error.hint !== null) output.data(`${output.style.cyan('next:')} ${error.hint}`);
      }
    }
    return error === null ? 0 : 1;
  });
}
