import { WaybillError } from '../../lib/errors.ts';
import { type Instant, parseInstant } from '../../lib/instant.ts';
import { parseRelativePath, type RelativePath } from '../../lib/paths.ts';
import type { PackOptions } from './pack-directory.ts';

/** `PackOptions` as text, from the command line or the client library. */
export interface PackSettings extends Omit<
  PackOptions,
  'name' | 'nameByDefault' | 'created' | 'createdByDefault' | 'onBytes'
> {
  /** The bundle's relative path, below which it is published. */
  name?: string;
  /** The name to use if no other is given, such as the directory's. Ignored if it is not a valid name. */
  nameByDefault?: string;
  /** An RFC 3339 time with a zone. Default: the time of the newest file. */
  created?: string;
  /** Overrides that default. Unlike `created`, it is allowed if the directory has a manifest. */
  createdByDefault?: string;
}

/** Parses the settings. Throws `usage` for an invalid name or time. */
export function parsePackSettings({
  name,
  nameByDefault,
  created,
  createdByDefault,
  ...others
}: PackSettings): Omit<PackOptions, 'onBytes'> {
  return {
    ...others,
    ...(name === undefined ? {} : { name: bundleName(name) }),
    ...(nameByDefault === undefined ? {} : fitName(nameByDefault)),
    ...(created === undefined ? {} : { created: instant(created) }),
    ...(createdByDefault === undefined ? {} : { createdByDefault: instant(createdByDefault) }),
  };
}

function fitName(text: string): Pick<PackOptions, 'nameByDefault'> {
  const verdict = parseRelativePath(text);
  return verdict.ok ? { nameByDefault: verdict.path } : {};
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
  throw new WaybillError('usage', `"${text}", when the bundle was created, ${verdict.reason}`, {
    hint: 'use a time such as 2026-11-20T01:02:03Z',
  });
}
