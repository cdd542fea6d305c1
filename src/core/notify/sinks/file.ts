import { constants, existsSync } from 'node:fs';
import { access, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { WaybillError } from '../../lib/errors.ts';
import { path } from '../../lib/settings/kinds.ts';
import { shellQuoted } from '../../lib/text.ts';
import { notifierSettings, type Sink, sinkKind } from '../sink.ts';

export const fileKind = sinkKind({
  settings: notifierSettings('file', 'A line of JSON appended to a file.', {
    path: path()
      .required()
      .description(
        'File to append to, in an existing directory. If missing, it is created, readable only by its owner.',
      )
      .example('/var/log/waybill/events.jsonl'),
  }),
  secrets: () => [],
  open: async ({ path }) => fileSink(path),
  reach: async ({ path }) => reachFile(path),
});

/** Makes sure that the file can be created, or opened to append to it. */
async function reachFile(path: string): Promise<string> {
  const isThere = existsSync(path);
  const place = isThere ? path : dirname(path);
  try {
    await access(place, isThere ? constants.W_OK : constants.W_OK | constants.X_OK);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
    throw new WaybillError('unreachable', `"${place}" is not writable (${code})`, {
      hint:
        code === 'ENOENT'
          ? `create the directory: mkdir -p ${shellQuoted(place)}`
          : 'give the user that runs waybill write access',
      cause,
    });
  }
  if (!isThere) return 'does not exist, and can be created';
  if ((await stat(path)).isDirectory())
    throw new WaybillError('unreachable', `"${path}" is a directory`, { hint: 'use a file in it' });
  return 'is writable';
}

/**
 * Errors that may go away: a full disk, too many open files, a network file system that cannot be reached.
 */
const transientCodes = new Set([
  'ENOSPC',
  'EDQUOT',
  'EMFILE',
  'ENFILE',
  'EAGAIN',
  'EINTR',
  'EIO',
  'ESTALE',
  'EBUSY',
]);

/**
 * Appends events to a file as JSON Lines. Each line is written at once in append mode, so on a local file
 * system, lines stay intact even if other processes write at the same time. The file is opened again for each
 * event and can be rotated by renaming it. A new file can only be read by its owner.
 */
export function fileSink(path: string): Sink {
  let endsInMidLine = false;
  return {
    concurrency: 1,
    timeoutMs: 5_000,
    async send(event) {
      try {
        // Without O_NONBLOCK, opening a named pipe that no one reads would hang forever.
        const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
        const file = await open(path, flags, 0o600);
        try {
          const line = Buffer.from(`${endsInMidLine ? '\n' : ''}${JSON.stringify(event)}\n`);
          const { bytesWritten } = await file.write(line);
          endsInMidLine = bytesWritten > 0 && bytesWritten < line.byteLength;
          if (bytesWritten < line.byteLength)
            return { ok: false, reason: 'only a part of the line could be written', retry: true };
        } finally {
          await file.close();
        }
        return { ok: true };
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
        return { ok: false, reason: `writing the file failed (${code})`, retry: transientCodes.has(code) };
      }
    },
    close: async () => undefined,
  };
}
