import type { Extraction } from '../extract-archive.ts';
import { hasErrors, invalidBundle } from '../invalid-bundle.ts';
import type { Clock } from '../../lib/clock.ts';
import { finding } from '../../lib/errors.ts';
import type { Instant } from '../../lib/instant.ts';
import { localStorage } from '../../storage/local/local-storage.ts';
import { manifestText } from './make-manifest.ts';
import { selectFiles, type Patterns } from './select-files.ts';

/**
 * Creates the manifest of an upload without one. Lists the files in `directory` that the patterns and the
 * `.waybillignore` select. `created` is the time of the newest file, so that the same archive makes the same
 * bundle. Times in the future count as now. Throws `invalid_bundle` if there are no files, or with every file
 * that a bundle must not have.
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
    findings.push(
      finding('error', 'no_files', 'has no files to publish, or all are excluded', { file: '.' }),
    );
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
