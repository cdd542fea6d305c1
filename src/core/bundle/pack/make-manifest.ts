import type { Clock } from '../../lib/clock.ts';
import type { Digest } from '../../lib/digest.ts';
import { finding } from '../../lib/errors.ts';
import type { Instant } from '../../lib/instant.ts';
import type { RelativePath } from '../../lib/paths.ts';
import { localStorage } from '../../storage/local/local-storage.ts';
import type { Extraction } from '../extract-archive.ts';
import type { JsonObject, JsonValue } from '../manifest-json.ts';
import { hasErrors, invalidBundle } from '../source-bundle.ts';
import { type Patterns, selectFiles } from './select-files.ts';

export interface MeasuredFile {
  path: RelativePath;
  /** The size in bytes. */
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
 * Returns the text of a manifest, with one file per line so that diffs are readable. Keeps the other content
 * of the `former` manifest: unknown keys, the kinds and media types of files that still exist, and the name
 * and metadata unless `facts` has new ones.
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

/**
 * Creates the manifest for an upload without one. Lists the files in `directory` that the patterns and the
 * `.waybillignore` select. `created` is the time of the newest file, so that the same archive produces the
 * same bundle. Times in the future count as now. Throws `invalid_bundle` if there are no files, or with a
 * finding for each file that is not allowed in a bundle.
 */
export async function uploadedManifest(
  { files, modified }: Extraction,
  directory: string,
  patterns: Patterns,
  clock: Clock,
): Promise<Buffer> {
  const storage = await localStorage(directory, { readOnly: true });
  const selected = await selectFiles(storage, patterns);
  const findings = [...selected.findings];
  if (selected.files.length === 0 && findings.length === 0)
    findings.push(finding('error', 'no_files', 'it has no files, or every file is excluded', { file: '.' }));
  if (hasErrors(findings)) throw invalidBundle('the upload', findings);
  const now = clock.now().getTime();
  let newest = 0;
  const listed = selected.files.flatMap(({ path }) => {
    newest = Math.max(newest, Math.min(modified.get(path) ?? 0, now));
    const facts = files.get(path);
    return facts === undefined ? [] : [{ path, ...facts }];
  });
  return Buffer.from(manifestText(listed, { created: new Date(newest).toISOString() as Instant }));
}
