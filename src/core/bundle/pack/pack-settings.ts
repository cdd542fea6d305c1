import { WaybillError } from '../../lib/errors.ts';
import { type Instant, parseInstant } from '../../lib/instant.ts';
import { parseRelativePath, type RelativePath } from '../../lib/paths.ts';
import type { PackOptions } from './pack-directory.ts';

/** The text form of `PackOptions`, for the command line and the client library. */
export interface PackSettings extends Omit<
  PackOptions,
  'name' | 'nameByDefault' | 'created' | 'createdByDefault' | 'onBytes'
> {
  /** The relative path to publish the bundle under. */
  name?: string;
  /**
   * The name to use if there is no other, such as the name of the directory. Ignored if it is not a valid
   * name.
   */
  nameByDefault?: string;
  /** An RFC 3339 time with a time zone. Default: the time of the newest file. */
  created?: string;
  /** Replaces that default. Unlike `created`, this can be used even if the directory has a manifest. */
  createdByDefault?: string;
}

/** Parses the settings. Throws a `usage` error if the name or a time is invalid. */
export function parsePackSettings({
  name,
  nameByDefault,
  created,
  createdByDefault,
  ...others
}: PackSettings): Omit<PackOptions, 'onBytes'> {
  return {
    ...others,
    name: name === undefined ? undefined : bundleName(name),
    nameByDefault: nameByDefault === undefined ? undefined : parseName(nameByDefault),
    created: created === undefined ? undefined : instant(created),
    createdByDefault: createdByDefault === undefined ? undefined : instant(createdByDefault),
  };
}

function parseName(text: string): RelativePath | undefined {
  const verdict = parseRelativePath(text);
  return verdict.ok ? verdict.path : undefined;
}

function bundleName(text: string): RelativePath {
  const verdict = parseRelativePath(text);
  if (verdict.ok) return verdict.path;
  throw new WaybillError('usage', `the name "${text}" of the bundle ${verdict.reason}`, {
    hint: 'use a relative path such as maps/session-42',
  });
}

function instant(text: string): Instant {
  const verdict = parseInstant(text);
  if (verdict.ok) return verdict.value;
  throw new WaybillError('usage', `the creation time "${text}" ${verdict.reason}`, {
    hint: 'use a time such as 2026-11-20T01:02:03Z',
  });
}
