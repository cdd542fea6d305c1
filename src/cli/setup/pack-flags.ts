import path from 'node:path';
import type { PackSettings } from '../../core/bundle/pack/pack-settings.ts';
import { systemClock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { BundleFlags } from './command-options.ts';

/**
 * Uses the name of the directory as the name of the bundle, so that uploading it again replaces what has been
 * published.
 */
export function defaultNameFor(directory: string): Pick<PackSettings, 'nameByDefault'> {
  return { nameByDefault: path.basename(path.resolve(directory)) };
}

/**
 * Returns the settings for creating a bundle, from the options and the environment. Throws a `usage` error if
 * they are invalid.
 */
export function packSettings(flags: BundleFlags): PackSettings {
  const { name, created, metadata, include, exclude, links, sceneMap: sceneMaps, renew } = flags;
  const epoch = process.env['SOURCE_DATE_EPOCH'] ?? '';
  return {
    renew,
    name,
    include,
    exclude,
    links,
    sceneMaps,
    created: created === 'now' ? systemClock.now().toISOString() : created,
    createdByDefault: epoch === '' ? undefined : timeOfEpoch(epoch),
    metadata: metadata && metadataOf(metadata),
  };
}

/** See https://reproducible-builds.org/specs/source-date-epoch/. */
function timeOfEpoch(text: string): string {
  if (/^\d{1,11}$/.test(text)) return new Date(Number(text) * 1000).toISOString();
  throw new WaybillError(
    'usage',
    `SOURCE_DATE_EPOCH is "${text}", which is not a number of seconds since 1970`,
    {
      hint: 'set it to the output of date +%s, or unset it',
    },
  );
}

function metadataOf(pairs: readonly string[]): Record<string, string> {
  const metadata = new Map<string, string>();
  for (const pair of pairs) {
    const equals = pair.indexOf('=');
    const key = pair.slice(0, equals);
    if (equals < 1) throw new WaybillError('usage', `--metadata "${pair}" is not key=value`);
    if (metadata.has(key)) throw new WaybillError('usage', `--metadata "${key}" is given twice`);
    metadata.set(key, pair.slice(equals + 1));
  }
  return Object.fromEntries(metadata);
}
