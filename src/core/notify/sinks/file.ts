import { constants, existsSync } from 'node:fs';
import { access, open, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { WaybillError } from '../../errors.ts';
import { resolvePath } from '../../settings/values.ts';
import type { SinkKind } from '../sink-kind.ts';
import type { Sink } from '../sink.ts';

interface FileSettings {
  kind: 'file';
  path: string;
}

export const fileKind: SinkKind<'file', FileSettings, FileSettings> = {
  kind: 'file',
  summary: 'A line of JSON at the end of a file.',
  settings: ({ path }) => ({
    path: path()
      .required()
      .description(
        'The file. It is made where it is not there, readable by its owner alone; its directory must exist.',
      )
      .example('/var/log/waybill/events.jsonl'),
  }),
  fault: () => null,
  resolve: ({ path }, base) => ({ kind: 'file', path: resolvePath(path, base) }),
  secrets: () => [],
  open: async ({ path }) => fileSink(path),
  reach: async ({ path }) => reachFile(path),
};

/** Whether the file can be opened for appending or, where it is not there, made. */
async function reachFile(path: string): Promise<string> {
  const isThere = existsSync(path);
  const place = isThere ? path : dirname(path);
  try {
    await access(place, isThere ? constants.W_OK : constants.W_OK | constants.X_OK);
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error';
    throw new WaybillError('unreachable', `"${place}" cannot be written (${code})`, {
      hint:
        code === 'ENOENT'
          ? `make the directory: mkdir -p ${place}`
          : 'let the user that waybill runs as write there',
      cause,
    });
  }
  if (!isThere) return 'is not there, and can be made';
  if ((await stat(path)).isDirectory())
    throw new WaybillError('unreachable', `"${path}" is a directory`, { hint: 'name a file in it' });
  return 'may be written';
}

/** What passes by itself: a full disk, too many files open, a network file system that is away. */
const passing = new Set([
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
 * Events as JSON Lines. Each line is one write to a file opened for appending, which the system keeps whole
 * beside other writers on a local file system. The file is opened anew for each event, so that it can be
 * rotated by renaming it; a new one is readable by its owner alone.
 */
export function fileSink(path: string): Sink {
  let endsInMidLine = false;
  return {
    concurrency: 1,
    timeoutMs: 5_000,
    async send(event) {
      try {
        // Without O_NONBLOCK a named pipe that nobody reads would be waited for, for ever.
        const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
        const file = await open(path, flags, 0o600);
        try {
          const line = Buffer.from(`${endsInMidLine ? '\n' : ''}${JSON.stringify(event)}\n`);
          const { bytesWritten } = await file.write(line);
          endsInMidLine = bytesWritten > 0 && bytesWritten < line.byteLength;
          if (bytesWritten < line.byteLength)
            return { ok: false, reason: 'the file took only a part of the line', retry: true };
        } finally {
          await file.close();
        }
        return { ok: true };
      } catch (error) {
        const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
        return { ok: false, reason: `the file cannot be written (${code})`, retry: passing.has(code) };
      }
    },
    close: async () => undefined,
  };
}
