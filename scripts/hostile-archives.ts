import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { problemOf } from '../src/api/http/answer/problem.ts';
import { stageUpload } from '../src/core/bundle/stage-upload.ts';
import { asWaybillError, type WaybillError } from '../src/core/lib/errors.ts';
import { hostileArchives, hostileLimits } from '../test/fixtures/hostile-archives.ts';
import { inChunks } from '../test/fixtures/tar.ts';

/**
 * Generates `docs/design/hostile-archives.md`, which lists the error for each archive in the fixture, without
 * its hint.
 */
export async function hostileArchiveReference(): Promise<string> {
  const tables = new Map<string, Map<string, string[]>>();
  for (const [name, [, archive]] of Object.entries(hostileArchives)) {
    const error = await refusalOf(archive);
    const { status, code } = problemOf(error, '');
    const heading = `${status} \`${code}\``;
    const table = tables.get(heading) ?? new Map<string, string[]>();
    tables.set(heading, table);
    const reason = reasonOf(error.message);
    table.set(reason, [...(table.get(reason) ?? []), name]);
  }
  return `# Hostile archives

A test uploads each of these ${Object.keys(hostileArchives).length} archives, with a limit of ${hostileLimits.maxUploadSize} bytes and ${hostileLimits.maxFiles} files. The daemon answers, starts no run and leaves
nothing in staging. The answer also names the entry or the place in the manifest.

${[...tables].map(([heading, rows]) => `## ${heading}\n\n${tableOf(rows)}`).join('\n\n')}
`;
}

function tableOf(rows: ReadonlyMap<string, readonly string[]>): string {
  const lines = [...rows].map(([reason, names]) => `| ${cell(reason)} | ${names.map(cell).join('; ')} |`);
  return ['| answer | archives |', '| --- | --- |', ...lines].join('\n');
}

/** Leaves out the place, so that the same reason has the same text, and everything after the reason. */
export function reasonOf(message: string): string {
  return message
    .replace('the upload is not a valid bundle: ', '')
    .replace(/^[a-z.]+(?=:| \/)(:\d+:\d+)?( \/\S*)?:? /, '')
    .replace(/^the archive entry "(\\.|[^"])*" (has a path that )?/, '')
    .replace(/( \(and \d+ more\)| \([a-z ]+\)|[;,:] ).*$/s, '')
    .replaceAll(/"(?!\.\.?"|\.publisher")[^"]*"/g, '"…"')
    .replaceAll(/sha256:[0-9a-f]+/g, 'sha256:…');
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
