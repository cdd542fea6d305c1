import type { Clock } from '../../lib/clock.ts';
import type { Digest } from '../../lib/digest.ts';
import type { Instant } from '../../lib/instant.ts';
import { isRecord } from '../../lib/json-document.ts';
import type { RelativePath } from '../../lib/paths.ts';
import { localStorage } from '../../storage/local/local-storage.ts';
import type { Extraction } from '../extract-archive.ts';
import type { JsonObject } from '../manifest-json.ts';
import { hasErrors, invalidBundle } from '../source-bundle.ts';
import { noFiles, type Patterns, selectFiles } from './select-files.ts';

export interface MeasuredFile {
  path: RelativePath;
  /** The size in bytes. */
  size: number;
  digest: Digest;
  /** Default: `file`. */
  kind?: string;
}

/** The contents of a new manifest, apart from its files. */
export interface ManifestFacts {
  created: Instant;
  name?: RelativePath;
  metadata?: Readonly<Record<string, string>>;
}

/**
 * Returns the text of a manifest. Each file is on its own line, so diffs are easy to read. Everything else
 * stays as it was in the `former` manifest: unknown keys, the kinds and media types of files that still
 * exist, and the name and metadata unless `facts` contains new ones.
 */
export function manifestText(
  files: readonly MeasuredFile[],
  { created, name, metadata }: ManifestFacts,
  former: JsonObject = {},
): string {
  const formerFiles = new Map<string, JsonObject>();
  for (const entry of Array.isArray(former['files']) ? former['files'] : [])
    if (isRecord(entry) && typeof entry['path'] === 'string') formerFiles.set(entry['path'], entry);
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

/**
 * Generates a manifest for an upload that does not have one. It lists the files in `directory` that the
 * patterns and the `.waybillignore` select. `created` is the time of the newest file, but no later than now,
 * so the same archive always becomes the same bundle. Throws `invalid_bundle` if there are no files, or with
 * a finding for each file that a bundle may not contain.
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
  if (selected.files.length === 0 && findings.length === 0) findings.push(noFiles(selected));
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
