import { readFileSync } from 'node:fs';
import t from 'tap';
import { connect, tokens } from '../api/harness.ts';
import { answered, headOf, stalledClients, withBody } from '../api/stalled-bodies.ts';
import { startDaemon } from './daemon.ts';

const mib = 1024 * 1024;
const config = `upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [docs, files]}]
server:
  http: {listen: "127.0.0.1:0", idle_timeout: 5s, max_body_memory: 16MiB, queue_size: 1000, shutdown_timeout: 1s}
  admin_token_env: ADMIN
  staging: {directory: ./staging}
pipelines:
  - {id: docs, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}
  - {id: files, source: {backend: local, path: ./files}, destinations: [{id: out, backend: local, path: ./out}]}
`;

/** Resident memory of a process, in MiB. */
function residentMiB(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

t.test('stalled bodies use no memory of the daemon, on every route that has one', async (t) => {
  const daemon = await startDaemon(t, t.testdir({ 'c.yml': config, files: {} }), {
    TOKEN: tokens.docs,
    ADMIN: tokens.admin,
  });
  const origin = daemon.url.replace(/\/$/, '');
  const resident = (): number => residentMiB(daemon.process.pid);
  const document = withBody.find(({ name }) => name === 'validateSceneMap (application/json)');
  if (document === undefined) throw new TypeError('the route is gone');
  /** A few clients on every route, and sixty that send most of a large document. */
  const stall = async (rounds: number, documents: number): Promise<void> => {
    const few = (
      await Promise.all(Array.from({ length: rounds }, () => stalledClients(t, { origin }, '-')))
    ).flat();
    const many = await Promise.all(
      Array.from({ length: documents }, async () => {
        const client = await connect(t, origin);
        client.socket.write(headOf(document, 4 * mib));
        // The daemon disconnects it if there is no memory left.
        client.socket.on('error', () => undefined).write(Buffer.alloc(3.8 * mib, ' '));
        return { ...client, name: document.name };
      }),
    );
    for (const { name, until, socket } of [...few, ...many]) {
      t.match(await until(answered), /^HTTP\/1.1 (408|503) /, name);
      socket.destroy();
    }
  };
  await stall(1, 1);
  const before = resident();
  let most = before;
  const look = setInterval(() => (most = Math.max(most, resident())), 20);
  t.teardown(() => clearInterval(look));
  await stall(10, 60);
  const grown = most - before;
  t.comment(`${before.toFixed(0)} MiB before, ${most.toFixed(0)} MiB at most`);
  // Sixty documents are 228 MiB; the limit is 16 MiB, plus the buffers of each connection.
  t.ok(grown < 120, `${grown.toFixed(0)} MiB more`);
});
