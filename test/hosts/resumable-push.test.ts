import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { type Client, connect, type ConnectionOptions } from '../../src/client/client.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { asWaybillError } from '../../src/core/lib/errors.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { noise } from '../fixtures/noise.ts';
import { bundleTar } from '../fixtures/tar.ts';
import { startCaddy } from '../services/caddy.ts';
import { startCuttingProxy } from '../services/cutting-proxy.ts';
import { freePort } from '../services/free-port.ts';
import { startNginx } from '../services/nginx.ts';
import { startRedis } from '../services/redis.ts';

/**
 * `push` of a large archive through proxies with the settings of docs/operations.md, over connections that
 * break.
 */

const token = 'the-token-of-ci-on-this-host';
const size = 24 << 20;
const chunkBytes = 2 << 20;
const cuts = 8;

interface Place {
  root: string;
  archive: string;
  start: () => Promise<RunningServer>;
}

function layOut(t: Test, server: string, listen: string): Place {
  const root = t.testdir({
    'waybill.yaml': `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:${listen}"}
  staging: {directory: ./staging}
${server}
pipelines:
  - {id: maps, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
`,
  });
  const archive = path.join(root, 'site.tar');
  writeFileSync(archive, bundleTar({ 'data.bin': noise(size) }, { name: 'site' }));
  const configFile = path.join(root, 'waybill.yaml');
  return {
    root,
    archive,
    start: () => serve({ configFile, log: silentLog, env: { TOKEN: token, HOME: root } }),
  };
}

const clientAt = (port: number, options: Partial<ConnectionOptions> = {}): Client =>
  connect({
    url: `http://127.0.0.1:${port}`,
    token,
    patience: { baseMs: 5, capMs: 50, forMs: 120_000, tries: 10 },
    // A stopping daemon requests a pause of half a minute.
    clock: {
      ...systemClock,
      sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 200), signal),
    },
    ...options,
  });

/** As in docs/operations.md. */
const asDocumented = (port: number): string => `
  location / {
    proxy_pass http://127.0.0.1:${port};
    proxy_http_version 1.1;
    proxy_request_buffering off;
    client_max_body_size 512m;
    client_body_timeout 60s;
    proxy_read_timeout 300s;
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;
  }`;

const proxies: Record<string, (t: Test, port: number) => Promise<number>> = {
  nginx: (t, port) => startNginx(t, { server: asDocumented(port) }),
  'nginx as it is installed, which buffers and takes a mebibyte': (t, port) =>
    startNginx(t, { server: `location / { proxy_pass http://127.0.0.1:${port}; }` }),
  caddy: async (t, port) => {
    const site = `	reverse_proxy 127.0.0.1:${port} {\n		flush_interval -1\n	}`;
    return Number(new URL(await startCaddy(t, site)).port);
  },
};

for (const [name, startProxy] of Object.entries(proxies))
  t.test(`behind ${name}: ${cuts} disconnects, and a restart of the daemon in the middle`, async (t) => {
    const port = await freePort();
    const place = layOut(t, '', String(port));
    let daemon = await place.start();
    t.teardown(() => daemon.close());
    const line = await startCuttingProxy(t, await startProxy(t, port));
    let [sent, left, retries] = [0, cuts, 0];
    let restarted = null as Promise<void> | null;
    const client = clientAt(line.port, { onRetry: () => void (retries += 1) });
    const outcome = await client.push('maps', place.archive, {
      ...{ resumable: 'always', chunkBytes },
      onSent(bytes) {
        sent += bytes;
        if (sent > size / 2)
          restarted ??= (async () => {
            await daemon.close();
            daemon = await place.start();
          })();
        // The previous connection was accepted.
        if (left === 0 || line.cuts() < cuts - left) return;
        left -= 1;
        line.cutAfter(Math.floor((chunkBytes * (left + 1)) / (cuts + 2)));
      },
    });
    await restarted;
    t.match(outcome.run, { status: 'succeeded' });
    t.equal(line.cuts(), cuts);
    const passed = line.passed('to the server');
    // Two more: the restart, and the part that was rejected because of its length.
    t.ok(passed < size + (cuts + 2) * chunkBytes + 200_000, `${passed} bytes for ${size}`);
    t.ok(readFileSync(path.join(place.root, 'web/site/data.bin')).equals(noise(size)));
    t.comment(`${passed} bytes were sent for ${size}; ${retries} retries`);
  });

t.test('two hosts with one queue: an upload stays on the host that started it', async (t) => {
  const redis = await startRedis();
  t.teardown(() => redis.close());
  const place = layOut(t, '  queue: {driver: bullmq, redis_url_env: REDIS_URL}', '0');
  const configFile = path.join(place.root, 'waybill.yaml');
  const env = { TOKEN: token, HOME: place.root, REDIS_URL: redis.url };
  const hosts = [
    await serve({ configFile, log: silentLog, env }),
    await serve({ configFile, log: silentLog, env }),
  ];
  t.teardown(() => Promise.all(hosts.map((host) => host.close())));
  const servers = hosts.map(({ url }) => `server ${new URL(url).host};`).join('\n');
  const seen: string[] = [];
  const options = { resumable: 'always', chunkBytes } as const;

  const sticky = await startNginx(t, {
    http: `
map $http_idempotency_key $upload_of {
  default $http_idempotency_key;
  ''      $http_authorization;
}
upstream waybill { ${servers} }
upstream waybill_uploads { hash $upload_of consistent; ${servers} }`,
    server: `
client_max_body_size 512m;
proxy_http_version 1.1;
proxy_request_buffering off;
location / { proxy_pass http://waybill; }
location ~ /uploads(/|$) { proxy_pass http://waybill_uploads; }`,
  });
  const line = await startCuttingProxy(t, sticky);
  const onRetry = ({ code }: { code: string }): void => void seen.push(code);
  let isCut = false;
  const outcome = await clientAt(line.port, { onRetry }).push('maps', place.archive, {
    ...options,
    onSent() {
      if (!isCut) line.cutAfter(chunkBytes, 3);
      isCut = true;
    },
  });
  t.match(outcome, { isReplayed: false, run: { status: 'succeeded' } });
  t.ok(line.passed('to the server') < size + 4 * chunkBytes + 100_000, 'it continued at its offset');
  t.same([...new Set(seen)], ['connection_lost']);

  const turns = await startNginx(t, {
    http: `upstream waybill { ${servers} }`,
    server: 'client_max_body_size 512m; location / { proxy_pass http://waybill; }',
  });
  const failure = await clientAt(turns)
    .push('maps', other(place), options)
    .catch((error: unknown) => asWaybillError(error));
  t.match(failure, { code: 'upload_not_found', message: /another host/ });
  const plain: string[] = [];
  const again = await clientAt(turns).push('maps', other(place), {
    ...{ resumable: 'auto', chunkBytes },
    onPlain: ({ code }) => void plain.push(code),
  });
  t.match(again.run, { status: 'succeeded' });
  t.same(plain, ['upload_not_found'], 'without the rule, the archive is sent in one request');
});

/** Another bundle. */
function other({ root }: Place): string {
  const file = path.join(root, 'other.tar');
  writeFileSync(file, bundleTar({ 'data.bin': noise(size) }, { name: 'other' }));
  return file;
}
