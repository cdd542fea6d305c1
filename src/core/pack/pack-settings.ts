import { WaybillError } from '../errors.ts';
import { parseInstant, type Instant } from '../instant.ts';
import { parseRelativePath, type RelativePath } from '../paths.ts';
import type { PackOptions } from './pack-directory.ts';
import type { LinkPolicy } from './select-files.ts';

/** `PackOptions` as people and programs write them. */
export interface PackSettings {
  /** The bundle's relative path, below which it is published. */
  name?: string;
  /** The name if no other is given, such as the directory's. Omitted if it is not a valid name. */
  nameByDefault?: string;
  /** RFC 3339 with a zone; left out: the time of the newest file. */
  created?: string;
  /** Takes the place of that time, and may be given beside a manifest that is there. */
  createdByDefault?: string;
  metadata?: Readonly<Record<string, string>>;
  /** Only these files, in the syntax of `.gitignore`. */
  include?: readonly string[];
  /** Not these, in the same syntax. */
  exclude?: readonly string[];
  /** What becomes of symbolic links; left out: they are refused. */
  links?: LinkPolicy;
  /** Which files are session scene maps, in the same syntax. */
  sceneMaps?: readonly string[];
  /** Makes the manifest anew where there is one. */
  renew?: boolean;
}

/** Throws `usage` for a name or a time that is none. Pure. */
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
    hint: 'give a relative path, like maps/session-42',
  });
}

function instant(text: string): Instant {
  const verdict = parseInstant(text);
  if (verdict.ok) return verdict.value;
  throw new WaybillError('usage', `"${text}", when the bundle was created, ${verdict.reason}`, {
    hint: 'give a time like 2026-11-20T01:02:03Z',
  });
}
