import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { problemOf } from '../src/api/http/problem.ts';
import { stageUpload } from '../src/core/bundle/staging.ts';
import { asWaybillError, type WaybillError } from '../src/core/errors.ts';
import { hostileArchives, hostileLimits } from '../test/fixtures/hostile-archives.ts';
import { inChunks } from '../test/fixtures/tar.ts';

/** `docs/hostile-archives.md`: what the daemon answers to each archive of the tests that tries something. */
export async function hostileArchiveReference(): Promise<string> {
  const rows: string[] = [];
  for (const [name, [, archive]] of Object.entries(hostileArchives)) {
    const { status, code, detail } = problemOf(await refusalOf(archive), '');
    rows.push(`| ${cell(name)} | ${status} | \`${code}\` | ${cell(detail)} |`);
  }
  return `# Hostile archives

What the daemon answers to archives that try something, or are damaged. Nothing of them is left in staging, no run begins, and the connection is answered. This page is
made from the archives that the tests build (\`npm run generate\`), and a test sends each of them to a daemon and holds its answer to this table. The limits
there are ${hostileLimits.maxUploadSize} bytes and ${hostileLimits.maxFiles} files.

| ${rows.length} archives | status | code | answer |
| --- | --- | --- | --- |
${rows.join('\n')}
`;
}

async function refusalOf(archive: Buffer): Promise<WaybillError> {
  const directory = await mkdtemp(path.join(tmpdir(), 'waybill-hostile-'));
  try {
    await stageUpload({
      input: inChunks(archive),
      directory: path.join(directory, 'upload'),
      limits: hostileLimits,
      signal: new AbortController().signal,
      pipelineId: 'maps',
    });
  } catch (error) {
    return asWaybillError(error);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  throw new Error('a hostile archive was taken');
}

/** On one line, and as it is. */
function cell(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').replaceAll(/[\\|<>*_`[\]]/g, '\\$&');
}
