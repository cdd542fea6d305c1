import type { Digest } from '../../lib/digest.ts';
import type { Instant } from '../../lib/instant.ts';
import type { JsonObject, JsonValue } from '../manifest-json.ts';
import type { RelativePath } from '../../lib/paths.ts';

export interface MeasuredFile {
  path: RelativePath;
  /** In bytes. */
  size: number;
  digest: Digest;
  /** Default: `file`. */
  kind?: string;
}

/** The fields of a new manifest other than its files. */
export interface ManifestFacts {
  created: Instant;
  name?: RelativePath;
  metadata?: Readonly<Record<string, string>>;
}

/**
 * The text of a manifest, with one file per line so that diffs are readable. Keeps the other content of the
 * `former` manifest: unknown keys, kinds and media types of files that still exist, and the name and metadata
 * unless `facts` has new ones. Pure.
 */
export function manifestText(
  files: readonly MeasuredFile[],
  { created, name, metadata }: ManifestFacts,
  former: JsonObject = {},
): string {
  const formerFiles = new Map<string, JsonObject>();
  for (const entry of Array.isArray(former['files']) ? former['files'] : [])
    if (isObject(entry) && typeof entry['path'] === 'string') formerFiles.set(entry['path'], entry);
  const document: JsonObject = {
    ...former,
    schema_version: 1,
    ...(name === undefined ? {} : { name }),
    created,
    ...(metadata === undefined ? {} : { metadata: { ...metadata } }),
  };
  const lines = files.map(({ path, size, digest, kind }) =>
    JSON.stringify({
      ...formerFiles.get(path),
      path,
      size,
      digest,
      ...(kind === undefined ? {} : { kind }),
    }),
  );
  const rest = Object.entries(document)
    .filter(([key]) => key !== 'files')
    .map(([key, value]) => `  ${JSON.stringify(key)}: ${JSON.stringify(value)},\n`);
  return `{\n${rest.join('')}  "files": [\n    ${lines.join(',\n    ')}\n  ]\n}\n`;
}

function isObject(value: JsonValue | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
