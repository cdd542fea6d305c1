import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type Clock, systemClock } from '../../../../src/core/lib/clock.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { type Log, silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import type { SftpSession } from '../../../../src/core/storage/sftp/session.ts';
import { connectionsFor, SessionPool } from '../../../../src/core/storage/sftp/session-pool.ts';
import type { SftpLocation } from '../../../../src/core/storage/sftp/sftp-location.ts';
import { sftpStorage } from '../../../../src/core/storage/sftp/sftp-storage.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { type DelayingProxy, startDelayingProxy } from '../../../services/delaying-proxy.ts';
import { startPlainSftpServer } from '../../../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, type SftpServer, startSshd } from '../../../services/sshd.ts';

const mib = 1 << 20;
const server = await startSshd(t);
/** Large enough for three connections, and not a multiple of the size of a request. */
const large = patterned(72 * mib + 4321);
const name = key('scratch');
let places = 0;

/** Bytes without repeated pieces. */
function patterned(size: number): Buffer {
  const bytes = Buffer.allocUnsafe(size);
  for (let at = 0; at + 4 <= size; at += 4) bytes.writeUInt32LE(at, at);
  return bytes;
}

interface Line {
  proxy: DelayingProxy;
  storage: Storage;
  logged: string[];
  file: string;
}

async function lineOf(
  t: Test,
  changes: Partial<SftpLocation> & { roundTripMs?: number; allowed?: number; clock?: Clock } = {},
  to: SftpServer = server,
): Promise<Line> {
  const { roundTripMs = 40, allowed = Infinity, clock = systemClock, ...settings } = changes;
  const proxy = await startDelayingProxy(t, to.port, roundTripMs);
  proxy.allow(allowed);
  places += 1;
  const place = path.join(to.root, `place ${places}`);
  const logged: string[] = [];
  const info: Log['info'] = (_fields, message) => {
    if (message.startsWith('large')) logged.push(message);
  };
  const storage = await sftpStorage(
    { ...sftpLocationOf(to, place), port: proxy.port, ...settings },
    { clock, log: { ...silentLog, info }, secrets: noSecrets },
  );
  t.teardown(() => storage.close());
  // Like a publication's lease: the server's fsync support is already known.
  await write(storage, Buffer.from('small'));
  return { proxy, storage, logged, file: path.join(place, name) };
}

const write = (storage: Storage, bytes: Buffer) =>
  storage.write(name, bytesBody(bytes), { mode: 'scratch', digest: digestOf(bytes) });

t.test('uses more connections for larger files and shorter round trips', async (t) => {
  for (const [size, roundTripMs, most, connections] of [
    [0, 50, 4, 1],
    [47 * mib, 50, 4, 1],
    [48 * mib, 50, 4, 2],
    [1024 * mib, 50, 4, 4],
    [1024 * mib, 50, 16, 16],
    [1024 * mib, 9, 16, 1],
    [1024 * mib, 10, 1, 1],
  ] as const)
    t.equal(
      connectionsFor(size, roundTripMs, most),
      connections,
      `${size} bytes, ${roundTripMs} ms, ${most}`,
    );
});

t.test('writes a large file over several connections', async (t) => {
  const { proxy, storage, file } = await lineOf(t);
  t.equal(proxy.connections(), 1);
  t.match(await write(storage, large), { size: large.length, digest: digestOf(large) });
  t.equal(proxy.connections(), 3);
  t.ok(readFileSync(file).equals(large), 'each byte is at its position');
  const small = patterned(300_000);
  await write(storage, small);
  t.ok(readFileSync(file).equals(small), 'no bytes are left after a smaller one');
  t.equal(proxy.connections(), 3, 'they serve later requests');
  t.equal(proxy.open(), 3);
  await storage.close();
  while (proxy.open() > 0) await systemClock.sleep(20);
});

t.test('one connection is enough for a short round trip, or if the settings allow only one', async (t) => {
  // A loaded machine responds slowly. With this clock, its round trip is short anyway.
  const clock: Clock = { ...systemClock, monotonic: () => systemClock.monotonic() / 1000 };
  const near = await lineOf(t, { roundTripMs: 0, clock });
  await write(near.storage, large);
  t.equal(near.proxy.connections(), 1, 'with a short round trip');
  const one = await lineOf(t, { maxConnections: 1 });
  await write(one.storage, large);
  t.equal(one.proxy.connections(), 1, 'with `max_connections: 1`');
});

t.test('a server that allows one connection gets everything over that one', async (t) => {
  const { proxy, storage, logged, file } = await lineOf(t, { allowed: 1 });
  await write(storage, large);
  t.ok(readFileSync(file).equals(large));
  const tried = proxy.connections();
  t.ok(tried > 1);
  await write(storage, large);
  t.equal(proxy.connections(), tried, 'and is not requested again');
  t.same(logged, ['large files go over one connection']);
});

t.test('unwritten bytes of a lost connection leave no hole', async (t) => {
  const { proxy, storage, file } = await lineOf(t);
  // Cut early, because on a loaded machine the first connection may transfer most of the file.
  proxy.cutAfter(2, mib / 4);
  await t.rejects(write(storage, large), { code: 'storage_transient' });
  const opened = proxy.connections();
  t.match(await write(storage, large), { size: large.length });
  t.ok(readFileSync(file).equals(large), 'the retry writes all of it');
  t.equal(proxy.connections(), opened, 'over the first connection');
});

t.test('bytes in flight after the last piece leave no hole either', async (t) => {
  const { proxy, storage } = await lineOf(t);
  const open = async function* (): AsyncIterable<Uint8Array> {
    yield* inPieces(large);
    proxy.cut(2);
  };
  await t.rejects(storage.write(name, { ...bytesBody(large), open }, { mode: 'scratch' }), {
    code: 'storage_transient',
  });
  t.equal(proxy.connections(), 3);
});

t.test('reads one file even if another one replaces it meanwhile', async (t) => {
  const { proxy, storage, file } = await lineOf(t);
  writeFileSync(file, large);
  const other = Buffer.alloc(large.length, 1);
  writeFileSync(`${file}-2`, other);
  const chunks: Uint8Array[] = [];
  for await (const chunk of storage.read(name)) {
    if (chunks.length === 0) renameSync(`${file}-2`, file);
    chunks.push(chunk);
  }
  t.ok(Buffer.concat(chunks).equals(large));
  t.ok(readFileSync(file).equals(other));
  t.equal(proxy.connections(), 1);
});

t.test('a further connection must have the host key of the first one', async (t) => {
  const other = await startSshd(t);
  const { proxy, storage, logged, file } = await lineOf(t, { hostKeyPolicy: 'off' });
  proxy.forwardTo(other.port);
  await write(storage, large);
  t.ok(readFileSync(file).equals(large));
  t.same(logged, ['large files go over one connection']);
});

t.test('a server without sync gets everything over one connection', async (t) => {
  const plain = await startPlainSftpServer(t);
  const { proxy, storage, file } = await lineOf(t, {}, plain);
  await write(storage, large);
  t.ok(readFileSync(file).equals(large));
  t.equal(proxy.connections(), 1);
});

t.test('neither a write nor close waits for a connection that never opens', async (t) => {
  const { proxy, storage, file } = await lineOf(t);
  proxy.forwardTo(null);
  await write(storage, large);
  t.ok(readFileSync(file).equals(large));
  t.equal(proxy.connections(), 3);
  await storage.close();
  while (proxy.open() > 0) await systemClock.sleep(20);
});

t.test('closing ends connections that are being opened', async (t) => {
  const never = async (_first: unknown, signal: AbortSignal): Promise<SftpSession> =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  const further = new SessionPool({
    label: 'sftp',
    log: silentLog,
    maxConnections: 3,
    connect: never,
  });
  const opening = further.additionalSessions({ roundTripMs: 40, hostKey: Buffer.alloc(0) }, large.length);
  t.equal(opening.length, 2);
  await further.close();
  for (const session of opening) await t.rejects(session, { name: 'AbortError' });
});

t.test('the first connection may break, too', async (t) => {
  const { proxy, storage, file } = await lineOf(t);
  proxy.cutAfter(0, 8 * mib);
  await t.rejects(write(storage, large), { code: 'storage_transient' });
  await write(storage, large);
  t.ok(readFileSync(file).equals(large));
});

t.test('rejects a body that ends early or differs, and a write can be aborted', async (t) => {
  const { proxy, storage, file } = await lineOf(t);
  const digest = digestOf(Buffer.from('another'));
  await t.rejects(storage.write(name, bytesBody(large), { mode: 'scratch', digest }), {
    code: 'body_mismatch',
  });
  t.equal(proxy.connections(), 3);
  const short = { ...bytesBody(large), size: large.length + 1 };
  await t.rejects(storage.write(name, short, { mode: 'scratch' }), { code: 'body_mismatch' });
  const enough = new AbortController();
  let sent = 0;
  const onBytes = (bytes: number): void => {
    sent += bytes;
    if (sent > 20 * mib) enough.abort(new Error('enough'));
  };
  const pieces = { ...bytesBody(large), open: () => inPieces(large) };
  const given = { mode: 'scratch', signal: enough.signal, onBytes } as const;
  await t.rejects(storage.write(name, pieces, given), /enough/);
  t.ok(sent < large.length);
  await storage.remove(name);
  t.notOk(existsSync(file));
});

async function* inPieces(bytes: Buffer): AsyncIterable<Uint8Array> {
  for (let at = 0; at < bytes.length; at += mib) yield bytes.subarray(at, at + mib);
}

t.test('the next run completes a file after the run that wrote it was killed', async (t) => {
  const home = t.testdir({ source: { bundle: {} } });
  const bundle = path.join(home, 'source', 'bundle');
  writeFileSync(path.join(bundle, 'video.bin'), large);
  const files = [{ path: 'video.bin', size: large.length, digest: digestOf(large) }];
  const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files };
  writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify(manifest));
  const place = path.join(server.root, 'killed');
  const proxy = await startDelayingProxy(t, server.port, 40);
  const config = path.join(home, 'config.yml');
  const { host, user, clientKeyFile, knownHostsFile } = server;
  const destination = `{id: out, backend: sftp, host: ${host}, port: ${proxy.port}, user: ${user}, path: "${place}", ssh_key_file: "${clientKeyFile}", known_hosts_file: "${knownHostsFile}"}`;
  writeFileSync(
    config,
    `pipelines:\n  - id: maps\n    source: {backend: local, path: ./source}\n    destinations:\n      - ${destination}\n`,
  );
  const run = () =>
    spawn(process.execPath, ['--import=tsx', 'src/cli/main.ts', 'run', '--config', config], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
  const first = run();
  while (proxy.connections() < 3 || largestBelow(place) < mib) await systemClock.sleep(10);
  first.kill('SIGKILL');
  await once(first, 'close');
  const target = path.join(place, 'bundle', 'video.bin');
  t.throws(() => readFileSync(target), { code: 'ENOENT' });
  t.ok(allBelow(place).length > 0, 'it had started');
  const second = run();
  let said = '';
  second.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
  const [code] = (await once(second, 'close')) as [number];
  t.equal(code, 0, said);
  t.ok(readFileSync(target).equals(large));
  t.same(
    allBelow(place).filter((each) => /tmp|scratch|lock/.test(each)),
    [],
  );
});

/** The size of the largest file below a directory in bytes, or 0 without any. */
function largestBelow(directory: string): number {
  const names = existsSync(directory) ? allBelow(directory) : [];
  const sizes = names.map((each) => statSync(path.join(directory, each), { throwIfNoEntry: false }));
  return Math.max(0, ...sizes.map((found) => (found?.isFile() === true ? found.size : 0)));
}

function allBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true }) as string[];
}
