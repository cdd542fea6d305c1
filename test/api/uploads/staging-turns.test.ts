import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { serve } from '../../../src/cli/daemon/serve.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { bundleTar } from '../../fixtures/tar.ts';
import { connect, tokens, uploadHead } from '../harness.ts';

/** Measures the daemon's turns of the event loop during many uploads, in the process of the test. */

const [uploaders, filesEach] = [30, 100];

interface Uploading {
  origin: string;
  /** The number of staged files. */
  staged: () => number;
}

/** A daemon to which all clients have sent their whole upload. */
async function uploading(t: Test): Promise<Uploading> {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-turns-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const configFile = path.join(root, 'waybill.yaml');
  writeFileSync(
    configFile,
    `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server:
  http: {listen: "127.0.0.1:0", queue_size: 1000, shutdown_timeout: 1s}
  staging: {directory: ./staging, keep: {size: 0}}
pipelines:
  - {id: maps, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
`,
  );
  const staging = path.join(root, 'staging');
  mkdirSync(staging);
  const served = await serve({ configFile, log: silentLog, env: { TOKEN: tokens.maps, HOME: root } });
  t.teardown(() => served.close());
  const origin = served.url.replace(/\/$/, '');
  const files = Object.fromEntries(
    Array.from({ length: filesEach }, (_, index) => [`f${index}`, `${index}`]),
  );
  await Promise.all(
    Array.from({ length: uploaders }, async (_, index) => {
      const body = bundleTar(files, { name: `b${index}` });
      const { socket } = await connect(t, origin);
      socket.write(uploadHead({ 'Content-Length': body.length }));
      socket.write(body);
    }),
  );
  const staged = (): number =>
    readdirSync(staging)
      .filter((name) => name.startsWith('upload-'))
      .reduce((sum, name) => sum + filesIn(path.join(staging, name, 'files')), 0);
  return { origin, staged };
}

function filesIn(directory: string): number {
  try {
    return readdirSync(directory).length;
  } catch {
    return 0; // Not created yet.
  }
}

const endOfTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

t.test('new connections have priority over staging', async (t) => {
  const { origin, staged } = await uploading(t);
  while (staged() === 0) await endOfTurn();
  let answered = 0;
  const probes = 60;
  await Promise.all(
    Array.from({ length: probes }, async () => {
      const { socket, until } = await connect(t, origin);
      socket.write('GET /livez HTTP/1.1\r\nHost: x\r\n\r\n');
      void until(/200 OK/).then(() => (answered += 1));
    }),
  );
  let [before, most] = [staged(), 0];
  while (answered < probes) {
    await endOfTurn();
    const now = staged();
    most = Math.max(most, now - before);
    before = now;
  }
  t.ok(before < uploaders * (filesEach + 1), `answered while ${before} files were staged`);
  while (before < uploaders * (filesEach + 1)) {
    await endOfTurn();
    const now = staged();
    most = Math.max(most, now - before);
    before = now;
  }
  // The received part of each archive has sixty files.
  t.ok(most < 10 * uploaders, `at most ${most} files in one turn`);
});
