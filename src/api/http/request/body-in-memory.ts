import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../../core/errors.ts';
import { withBody, type BodyPorts } from './request-body.ts';

/** What reading a body into memory takes. */
export interface MemoryBodyPorts extends BodyPorts {
  bodyMemory: BodyMemory;
}

/** Counts the bytes of all bodies that are in memory at this moment. */
export interface BodyMemory {
  /**
   * Counts `bytes` for a request until its response has closed. Throws `server_busy` if all requests together
   * would hold more than the limit.
   */
  hold(res: ServerResponse, bytes: number): void;
  /** How many bytes are held. */
  held(): number;
}

// Documents and forms of a few MiB: what needs longer than this on a slow line is rather an attack.
const mostMs = 60_000;

/** @param limit Bytes. */
export function createBodyMemory(limit: number): BodyMemory {
  const holders = new WeakMap<ServerResponse, number>();
  let held = 0;
  return {
    hold: (res, bytes) => {
      if (held + bytes > limit) throw busy();
      const before = holders.get(res);
      if (before === undefined)
        res.once('close', () => {
          held -= holders.get(res) ?? 0;
          holders.delete(res);
        });
      holders.set(res, (before ?? 0) + bytes);
      held += bytes;
    },
    held: () => held,
  };
}

/**
 * Hands `read` the chunks of a body that will be in memory as a whole; each is counted before it is handed
 * out. Asks a client that waits for it to go on. Throws what `withBody` and `BodyMemory.hold` throw; the body
 * has a minute, or `upload_timeout` where that is shorter.
 */
export function withBodyInMemory<T>(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
  read: (chunks: AsyncIterable<Uint8Array>) => Promise<T>,
): Promise<T> {
  if (req.headers.expect !== undefined) res.writeContinue();
  const counted = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      ports.bodyMemory.hold(res, chunk.length);
      yield chunk;
    }
  };
  const time = Math.min(ports.http.uploadTimeoutMs, mostMs);
  return withBody(req, ports, ({ chunks }) => read(counted(chunks)), time);
}

/** The whole body. One longer than `mostBytes` throws `tooLong()`, before it is read if its head says so. */
export async function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
  { mostBytes, tooLong }: { mostBytes: number; tooLong: () => WaybillError },
): Promise<Buffer> {
  if (Number(req.headers['content-length'] ?? 0) > mostBytes) throw tooLong();
  return withBodyInMemory(req, res, ports, async (chunks) => {
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of chunks) {
      length += chunk.length;
      if (length > mostBytes) throw tooLong();
      parts.push(chunk);
    }
    return Buffer.concat(parts);
  });
}

function busy(): WaybillError {
  return new WaybillError('server_busy', 'the bodies that are being received take all the memory they may', {
    hint: 'try again shortly',
  });
}
