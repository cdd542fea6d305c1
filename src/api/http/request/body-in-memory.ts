import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../../core/lib/errors.ts';
import { createShares, type Shares } from './shares.ts';
import { callerOf } from './caller.ts';
import { withBody, type BodyPorts } from './request-body.ts';

/** What reading a body into memory takes. */
export interface MemoryBodyPorts extends BodyPorts {
  bodyMemory: BodyMemory;
}

/**
 * Counts the bytes of all bodies that are in memory at this moment. Bodies with a token and bodies without
 * one have pools of their own, and no token and no client can fill a pool. Forms and small JSON documents are
 * never refused: `max_connections` bounds their memory.
 */
export interface BodyMemory {
  /**
   * Counts `bytes` for a request until its response has closed. `mostBytes` is the longest body that the
   * route reads. Throws `server_busy` if the caller, or all callers of its kind together, would hold more
   * than they may.
   */
  hold(req: IncomingMessage, res: ServerResponse, bytes: number, mostBytes: number): void;
  /** How many bytes are held. */
  held(): number;
}

/** Bodies of at most this many bytes are small: a login, a reload, a reason for a pause. */
export const smallBodyBytes = 16 * 1024;

const mebibyte = 1024 * 1024;
const leastAnonymousBytes = 16 * mebibyte;
/** The longest body has room in an empty pool: a manifest, and a form of two documents. */
const longestBodyBytes = { withToken: 16 * mebibyte, anonymous: 9 * mebibyte };
const withTokenMs = 60_000;
const anonymousMs = 30_000;

/** @param limit Bytes of bodies with a token. Bodies without one have a quarter of it, at least 16 MiB. */
export function createBodyMemory(limit: number): BodyMemory {
  const pool = (total: number, longest: number): Shares =>
    createShares({ total, perOwner: Math.max(total / 2, longest) });
  const pools = {
    small: createShares({ total: Infinity, perOwner: Infinity }),
    withToken: pool(limit, longestBodyBytes.withToken),
    anonymous: pool(Math.max(limit / 4, leastAnonymousBytes), longestBodyBytes.anonymous),
  };
  const holders = new WeakMap<ServerResponse, number>();
  return {
    hold: (req, res, bytes, mostBytes) => {
      const { hasToken, owner } = callerOf(req);
      const large = hasToken ? pools.withToken : pools.anonymous;
      const taken = mostBytes <= smallBodyBytes ? pools.small : large;
      const refusedBy = taken.take(owner, bytes);
      if (refusedBy !== null) throw busy(refusedBy);
      const before = holders.get(res);
      holders.set(res, (before ?? 0) + bytes);
      if (before === undefined) res.once('close', () => taken.give(owner, holders.get(res) ?? 0));
    },
    held: () => Object.values(pools).reduce((sum, one) => sum + one.taken(), 0),
  };
}

/**
 * Hands `read` the chunks of a body that will be in memory as a whole; each is counted before it is handed
 * out. Asks a client that waits for it to go on. Throws what `withBody` and `BodyMemory.hold` throw. A body
 * has a minute, one without a token 30 s, or `upload_timeout` where that is shorter.
 */
export function withBodyInMemory<T>(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
  { mostBytes, read }: { mostBytes: number; read: (chunks: AsyncIterable<Uint8Array>) => Promise<T> },
): Promise<T> {
  if (req.headers.expect !== undefined) res.writeContinue();
  const counted = async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of chunks) {
      ports.bodyMemory.hold(req, res, chunk.length, mostBytes);
      yield chunk;
    }
  };
  const mostMs = callerOf(req).hasToken ? withTokenMs : anonymousMs;
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
  const read = async (chunks: AsyncIterable<Uint8Array>): Promise<Buffer> => {
    const parts: Uint8Array[] = [];
    let length = 0;
    for await (const chunk of chunks) {
      length += chunk.length;
      if (length > mostBytes) throw tooLong();
      parts.push(chunk);
    }
    return Buffer.concat(parts);
  };
  return withBodyInMemory(req, res, ports, { mostBytes, read });
}

function busy(bound: 'owner' | 'total'): WaybillError {
  const whose = bound === 'owner' ? 'of this client' : 'of all clients';
  return new WaybillError('server_busy', `the bodies ${whose} take all the memory that they may`, {
    hint: 'try again shortly',
  });
}
