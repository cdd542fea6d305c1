import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { Upload } from 'tus-js-client';
import { type RunningServer, serve } from '../../../src/cli/daemon/serve.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { type CuttingProxy, startCuttingProxy } from '../../services/cutting-proxy.ts';
import { ensureInstalled } from '../../services/debian.ts';
import { freePort } from '../../services/free-port.ts';
import { tokens } from '../harness.ts';
import { begin, offsetOf, send } from '../resumable/tus.ts';

/** The real daemon, with clients of other projects, broken connections, and restarts. */

const token = tokens.maps;

interface Place {
  root: string;
  start: () => Promise<RunningServer>;
  port: number;
}

async function layOut(t: Test, server: string): Promise<Place> {
  const port = await freePort();
  const root = t.testdir({
    'waybill.yaml': `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:${port}"}
  staging: {directory: ./staging}
${server}
pipelines:
  - {id: maps, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
`,
  });
  const configFile = path.join(root, 'waybill.yaml');
  const env = { TOKEN: token, HOME: root };
  return { root, port, start: () => serve({ configFile, log: silentLog, env }) };
}

/** Waits until the run of the upload has ended. Returns its status. */
async function statusOf(origin: string, location: string | null): Promise<string> {
  const response = await fetch(`${origin}${location ?? '/none'}?wait=60`);
  return ((await response.json()) as { status: string }).status;
}

// Large enough for the cuts, each of which costs less than two chunks, and for a restart after them.
const size = 6 << 20;
const chunkSize = 256 << 10;
const archive = bundleTar({ 'data.bin': Buffer.alloc(size, 'waybill ') }, { name: 'site' });
const wasPublished = (root: string): boolean =>
  readFileSync(path.join(root, 'web/site/data.bin')).equals(Buffer.alloc(size, 'waybill '));

/**
 * Uploads with tus-js-client, and disconnects whenever `afterChunk` returns true. Returns the path of the
 * run.
 */
function uploadWithClient(origin: string, afterChunk: () => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const upload = new Upload(archive, {
      endpoint: `${origin}/v1/pipelines/maps/uploads`,
      chunkSize,
      retryDelays: Array.from({ length: 3_000 }, () => 50),
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': 'build-7' },
      onChunkComplete: afterChunk,
      onError: reject,
      onSuccess: ({ lastResponse }) => resolve(lastResponse.getHeader('Location') ?? 'none'),
    });
    upload.start();
  });
}

for (const [name, server] of [
  ['memory', '  queue: {driver: memory}'],
  ['embedded', '  queue: {driver: embedded, directory: ./queue}'],
] as const)
  t.test(`tus-js-client with ten disconnects and a restarted daemon (${name})`, async (t) => {
    const place = await layOut(t, server);
    let daemon = await place.start();
    t.teardown(() => daemon.close());
    const proxy: CuttingProxy = await startCuttingProxy(t, place.port);
    const restarts: Promise<void>[] = [];
    const origin = `http://127.0.0.1:${proxy.port}`;
    let left = 10;
    const restart = async (): Promise<void> => {
      await daemon.close();
      daemon = await place.start();
    };
    const location = await uploadWithClient(origin, () => {
      if (left > 0) {
        left -= 1;
        // Within the next chunk, each time at another position.
        proxy.cutAfter(1 + Math.floor((chunkSize * left) / 10));
      } else if (restarts.length === 0) restarts.push(restart());
    });
    await Promise.all(restarts);
    t.same([proxy.cuts() >= 10, restarts.length], [true, 1], `${proxy.cuts()} cuts and a restart`);
    const most = archive.length + (proxy.cuts() + 2) * (chunkSize + 2_000) + 100_000;
    t.ok(proxy.passed('to the server') <= most, 'at most one chunk was resent for each cut');
    t.equal(await statusOf(origin, location), 'succeeded');
    t.ok(wasPublished(place.root));
  });

t.test('a daemon continues the partial uploads of the previous one, until they expire', async (t) => {
  const place = await layOut(t, '  resumable: {retention: 1h}');
  const first = await place.start();
  const origin = first.url.replace(/\/$/, '');
  const url = await begin(origin, archive.length);
  const half = archive.length >> 1;
  await send(url, 0, new Uint8Array(archive.subarray(0, half)));
  await first.close();
  const second = await place.start();
  t.teardown(() => second.close());
  t.equal(await offsetOf(url), half);
  const last = await send(url, half, new Uint8Array(archive.subarray(half)));
  t.equal(await statusOf(origin, last.headers.get('location')), 'succeeded');
  t.ok(wasPublished(place.root));
});

t.test('curl can upload without a library', async (t) => {
  await ensureInstalled('curl');
  const place = await layOut(t, '');
  const daemon = await place.start();
  t.teardown(() => daemon.close());
  const origin = daemon.url.replace(/\/$/, '');
  const file = path.join(place.root, 'archive.tar');
  writeFileSync(file, archive);
  const curl = async (...args: string[]): Promise<string> => {
    const common = ['-sS', '-D', '-', '-o', '/dev/null', '-H', `Authorization: Bearer ${token}`];
    // Must be asynchronous, because the daemon is in this process.
    const options = [...common, '-H', 'Tus-Resumable: 1.0.0', ...args];
    return (await promisify(execFile)('curl', options)).stdout;
  };
  const created = await curl(
    '-X',
    'POST',
    '-H',
    `Upload-Length: ${archive.length}`,
    `${origin}/v1/pipelines/maps/uploads`,
  );
  const location = /^location: (\S+)/im.exec(created)?.[1] ?? 'none';
  const type = 'Content-Type: application/offset+octet-stream';
  const sent = await curl(
    '-X',
    'PATCH',
    '-H',
    type,
    '-H',
    'Upload-Offset: 0',
    '--data-binary',
    `@${file}`,
    origin + location,
  );
  t.match(sent, /^HTTP\/1.1 204/m);
  t.equal(await statusOf(origin, /^location: (\S+)/im.exec(sent)?.[1] ?? null), 'succeeded');
});
