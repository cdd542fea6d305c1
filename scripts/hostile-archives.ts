import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { problemOf } from '../src/api/http/answer/problem.ts';
import { stageUpload } from '../src/core/bundle/staging.ts';
import { asWaybillError, type WaybillError } from '../src/core/lib/errors.ts';
import { hostileArchives, hostileLimits } from '../test/fixtures/hostile-archives.ts';
import { inChunks } from '../test/fixtures/tar.ts';

/**
 * Generates `docs/hostile-archives.md`, which lists the error for each archive in the fixture. Hints are left
 * out.
 */
export async function hostileArchiveReference(): Promise<string> {
  const tables = new Map<string, string[]>();
  for (const [name, [, archive]] of Object.entries(hostileArchives)) {
    const error = await refusalOf(archive);
    const { status, code } = problemOf(error, '');
    const heading = `## ${status} \`${code}\`\n\n| archive | answer |\n| --- | --- |`;
    const rows = tables.get(heading) ?? [];
    tables.set(heading, [...rows, `| ${cell(name)} | ${cell(error.message)} |`]);
  }
  return `# Hostile archives

The daemon rejects malicious and damaged archives. It answers the request, starts no run and leaves nothing in staging.

A test uploads each of these ${Object.keys(hostileArchives).length} archives and compares the answer. Its limits are ${hostileLimits.maxUploadSize} bytes and ${hostileLimits.maxFiles} files.
Each answer ends with a hint, which the tables omit.

${[...tables].map(([heading, rows]) => [heading, ...rows].join('\n')).join('\n\n')}
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
    });
  } catch (error) {
    return asWaybillError(error);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
  throw new Error('a hostile archive was accepted');
}

/** Puts the text on a single line and escapes Markdown. */
function cell(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').replaceAll(/[\\|<>*_`[\]]/g, '\\$&');
}
