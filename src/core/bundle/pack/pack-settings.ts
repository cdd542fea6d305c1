import { WaybillError } from '../../lib/errors.ts';
import { type Instant, parseInstant } from '../../lib/instant.ts';
import { parseRelativePath, type RelativePath } from '../../lib/paths.ts';
import type { ManifestSigner, PackOptions } from './pack-directory.ts';
import type { LinkPolicy } from './select-files.ts';

/** `PackOptions` as text, from the command line or the client library. */
export interface PackSettings {
  /** The bundle's relative path, below which it is published. */
  name?: string;
  /** The name if no other is given, such as the directory's. Ignored if it is not a valid name. */
  nameByDefault?: string;
  /** RFC 3339 with a zone. Default: the time of the newest file. */
  created?: string;
  /** Overrides that default. Unlike `created`, it is allowed if the directory has a manifest. */
  createdByDefault?: string;
  metadata?: Readonly<Record<string, string>>;
  /** Include only these files, in the syntax of `.gitignore`. */
  include?: readonly string[];
  /** Exclude these files, in the same syntax. */
  exclude?: readonly string[];
  /** How to treat symbolic links. Default: refuse them. */
  links?: LinkPolicy;
  /** Which files are session scene maps, in the same syntax. */
  sceneMaps?: readonly string[];
  /** Creates a new manifest even if there is one. */
  renew?: boolean;
  /** Signs the manifest: the bundle gets a `manifest.json.minisig`. Missing digests are added to it first. */
  sign?: ManifestSigner;
}

/** Throws `usage` for an invalid name or time. Pure. */
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
