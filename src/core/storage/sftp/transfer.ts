import type { Stats } from 'ssh2';
import { type Digest, finishDigest, startDigest } from '../../lib/digest.ts';
import { WaybillError } from '../../lib/errors.ts';
import { checkBody, readBody } from '../body.ts';
import type { Key } from '../key.ts';
import type { Body, WriteOptions, Written } from '../storage.ts';
import type { SftpSession } from './session.ts';
import { type OpenHandle, type SessionPool, SpreadFile, windowBytes } from './session-pool.ts';
import { applyMode } from './sftp-directories.ts';
import { DisconnectError } from './sftp-errors.ts';

/** The number of bytes per request. If the server accepts less than that, ssh2 splits the request. */
const chunkBytes = 128 << 10;
/** The number of requests in flight per file and connection. It is just enough to fill OpenSSH's window. */
const chunksAhead = windowBytes / chunkBytes;

/** The connections used to write a file: always the first one, and additional ones if the file is large. */
interface TransferConnections {
  first: SftpSession;
  sessions: SessionPool;
  /** The mode of new files. */
  fileMode: number;
}

/**
 * Reads a file in chunks, several requests ahead. Even for a large file, this only uses one connection. An
 * additional one would have to open the file by name a little later. If the file had been replaced in the
 * meantime, we would get a mix of both. Throws the errors of `SftpSession.ask`.
 */
export async function* readFile(session: SftpSession, file: string): AsyncIterable<Uint8Array> {
  const handle = await session.ask<Buffer>((sftp, done) => sftp.open(file, 'r', done));
  try {
    // Send both requests at once. Most files are so small that there is nothing else to read.
    const [{ size }, first] = await Promise.all([
      statOf(session, handle),
      readChunk(session, handle, 0, chunkBytes),
    ]);
    yield first;
    let at = first.byteLength;
    const ahead: Promise<Buffer>[] = [];
    let nextOffset = at;
    while (at < size) {
      while (ahead.length < chunksAhead && nextOffset < size) {
        const chunk = readChunk(session, handle, nextOffset, Math.min(chunkBytes, size - nextOffset));
        chunk.catch(() => undefined); // Reported when it's awaited. If it never is, it doesn't matter.
        ahead.push(chunk);
        nextOffset += chunkBytes;
      }
      const wanted = Math.min(chunkBytes, size - at);
      let chunk = (await ahead.shift()) as Buffer;
      // The server may send less than we asked for. Ask for the rest, then.
      while (chunk.byteLength < wanted) {
        const rest = await readChunk(session, handle, at + chunk.byteLength, wanted - chunk.byteLength);
        if (rest.byteLength === 0) break;
        chunk = Buffer.concat([chunk, rest]);
      }
      yield chunk;
      if (chunk.byteLength < wanted) return; // The file has become shorter. The reader notices by counting.
      at += chunk.byteLength;
    }
  } finally {
    // We have read everything, so it does not matter if the connection breaks now.
    await closeFile(session, handle).catch(() => undefined);
  }
}

interface TargetFile {
  /** Names the file in messages. */
  key: Key;
  /** The absolute path on the server. */
  path: string;
}

/**
 * Writes a body to a file that is new or gets truncated. Verifies the size and digest of the body, and the
 * size that the server reports in the end. Syncs the file if the server supports that. Throws
 * `body_mismatch`, the signal's reason, or the errors of `SftpSession.ask`.
 */
export async function writeFile(
  connections: TransferConnections,
  file: TargetFile,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  options.signal?.throwIfAborted();
  if (body.size > chunkBytes) return writeLarge(connections, file, body, options);
  const { key, path } = file;
  const { first: session, fileMode } = connections;
  const { bytes, ...read } = await readBody(key, body, options);
  const handle = await createFile(session, path, fileMode);
  // Do not wait for responses in between, because servers handle the requests for a file in order.
  const outcomes = await Promise.allSettled([
    read.size === 0 ? undefined : writeChunk({ session, handle }, 0, bytes),
    syncFile(session, handle),
    statOf(session, handle),
    closeFile(session, handle),
  ]);
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  const [, , stored] = outcomes;
  if (stored.status === 'fulfilled') await applyMode(session, path, stored.value, fileMode);
  // If the server cannot sync, this may be the size from before the write, so ask again.
  if (stored.status === 'fulfilled' && stored.value.size !== read.size)
    requireSize((await session.ask<Stats>((sftp, done) => sftp.lstat(path, done))).size, read.size);
  return { ...read, version: null };
}

async function writeLarge(
  { first, sessions, fileMode }: TransferConnections,
  { key, path }: TargetFile,
  body: Body,
  options: WriteOptions,
): Promise<Written> {
  const handle = await createFile(first, path, fileMode);
  const lanes = new SpreadFile(
    { session: first, handle },
    // Without a sync, the server may not do any work until the file is closed, and ignore the other handles.
    withSync.has(first) ? sessions.additionalSessions(first, body.size) : [],
    // Open without creating: a different machine at the same address would create a second file.
    (session) => session.ask((sftp, done) => sftp.open(path, 'r+', done)),
    chunksAhead,
  );
  try {
    const read = await writePieces(lanes, body, options);
    checkBody(options.outputName ?? key, read, { size: body.size, digest: options.digest });
    // The address may belong to several machines, each of which has to store its part. The first one doesn't
    // report the full size until they have.
    await finishAll(await lanes.settle());
    const [, stored] = await Promise.all([syncFile(first, handle), statOf(first, handle)]);
    requireSize(stored.size, read.size);
    await closeFile(first, handle);
    await applyMode(first, path, stored, fileMode);
    return { ...read, version: null };
  } catch (error) {
    await closeAll([{ session: first, handle }, ...(await lanes.settle())]);
    const isOfServer = options.signal?.aborted !== true && !(error instanceof WaybillError);
    if (isOfServer && lanes.isSpread()) sessions.disable(error);
    throw error;
  }
}

/**
 * Sends each piece over a connection that has capacity. Resolves when the server has confirmed all of them.
 * If a piece were missing, the file would have a hole but the right size, so if one of them fails, the whole
 * write fails. When it is retried, only the first connection is used.
 */
async function writePieces(
  lanes: SpreadFile,
  body: Body,
  options: WriteOptions,
): Promise<{ size: number; digest: Digest }> {
  const hash = startDigest();
  const active = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let size = 0;
  try {
    for await (const chunk of body.open()) {
      options.signal?.throwIfAborted();
      hash.update(chunk);
      for (let at = 0; at < chunk.byteLength; at += chunkBytes) {
        const to = size + at;
        const piece = chunk.subarray(at, at + chunkBytes);
        const { done } = await lanes.begin((lane) =>
          writeChunk(lane, to, piece).catch((error: unknown) => void failures.push(error)),
        );
        const writing: Promise<void> = done.finally(() => active.delete(writing));
        active.add(writing);
        if (failures.length > 0) throw failures[0];
      }
      size += chunk.byteLength;
      options.onBytes?.(chunk.byteLength);
      if (size > body.size) break;
    }
  } finally {
    await Promise.all(active);
  }
  if (failures.length > 0) throw failures[0];
  return { size, digest: finishDigest(hash) };
}

function createFile(session: SftpSession, file: string, mode: number): Promise<Buffer> {
  return session.ask((sftp, done) => sftp.open(file, 'w', { mode }, done));
}

function writeChunk({ session, handle }: OpenHandle, at: number, bytes: Uint8Array): Promise<void> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return session.ask((sftp, done) => sftp.write(handle, buffer, 0, buffer.length, at, done));
}

async function readChunk(session: SftpSession, handle: Buffer, at: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  const count = await session.ask<number>((sftp, done) =>
    sftp.read(handle, buffer, 0, length, at, (error, bytesRead) => {
      // In version 3, reading at the end of the file results in status 1, which is not an error.
      if ((error as { code?: unknown } | undefined)?.code === 1) done(null, 0);
      else done(error, bytesRead);
    }),
  );
  return buffer.subarray(0, count);
}

/** Returns the status of an open file. Throws the errors of `SftpSession.ask`. */
export function statOf(session: SftpSession, handle: Buffer): Promise<Stats> {
  return session.ask((sftp, done) => sftp.fstat(handle, done));
}

/** Closes a file. Throws the errors of `SftpSession.ask`. */
export function closeFile(session: SftpSession, handle: Buffer): Promise<void> {
  return session.ask((sftp, done) => sftp.close(handle, done));
}

/**
 * Syncs and closes the file on each of its connections. A handle must only be closed once, because the server
 * may use the same one for another file afterwards.
 */
async function finishAll(lanes: readonly OpenHandle[]): Promise<void> {
  const outcomes = await Promise.allSettled(
    lanes.map(({ session, handle }) => syncFile(session, handle).finally(() => closeFile(session, handle))),
  );
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
}

/**
 * Closes the file on each connection after a failure. Any handle that cannot be closed goes away with its
 * connection.
 */
async function closeAll(lanes: readonly OpenHandle[]): Promise<void> {
  await Promise.all(lanes.map(({ session, handle }) => closeFile(session, handle).catch(() => undefined)));
}

const withSync = new WeakSet<SftpSession>();
const withoutSync = new WeakSet<SftpSession>();

/** Flushes an open file to disk. Does nothing if the server does not support that. */
export async function syncFile(session: SftpSession, handle: Buffer): Promise<void> {
  if (withoutSync.has(session)) return;
  try {
    await session.ask((sftp, done) => sftp.ext_openssh_fsync(handle, done));
    withSync.add(session);
  } catch (error) {
    if (error instanceof Error && /does not support/i.test(error.message)) withoutSync.add(session);
    else throw error;
  }
}

/** Throws `DisconnectError` if the server has not received all bytes. */
export function requireSize(stored: number, sent: number): void {
  if (stored === sent) return;
  throw new DisconnectError(`the server has ${stored} bytes of it, but ${sent} were sent`);
}
