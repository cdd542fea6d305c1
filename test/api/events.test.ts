import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import * as tar from 'tar';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { program } from '../cli/process.ts';
import { startReceiver } from '../core/notify/receiver.ts';

/** The built daemon: events of uploads, and its log lines. */

const token = 'token-of-the-only-producer';

interface Daemon {
  url: string;
  directory: string;
  lines: () => Record<string, unknown>[];
  stop: () => Promise<number | null>;
}

async function startDaemon(t: Test, url: string, more: string): Promise<Daemon> {
  const directory = t.testdir();
  writeFileSync(
    path.join(directory, 'c.yml'),
    `
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [maps]}]
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
notifiers:
  - {id: hook, kind: webhook, url: "${url}", secret_env: HOOK, timeout: 5s${more}}
  - {id: said, kind: log}
pipelines:
  - id: maps
    source: {backend: http_upload}
    destinations:
      - {id: web, backend: local, path: ./web}
      - {id: copy, backend: local, path: ./copy}
`,
  );
  const child = spawn(process.execPath, [program, 'serve', '-c', 'c.yml', '--verbose'], {
    cwd: directory,
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: '/nonexistent',
      TOKEN: token,
      HOOK: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let log = '';
  const listening = new Promise<string>((resolve, reject) => {
    child.stderr.on('data', (chunk: Buffer) => {
      log += chunk.toString();
      const found = /"url":"([^"]+)".*"msg":"listening"/.exec(log)?.[1];
      if (found !== undefined) resolve(found);
    });
    child.once('close', () => reject(new Error(log)));
  });
  const lines = (): Record<string, unknown>[] =>
    log
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return { url: await listening, directory, lines, stop: async () => stopped(child) };
}

async function stopped(child: ChildProcess): Promise<number | null> {
  const closed = once(child, 'close');
  child.kill('SIGTERM');
  return ((await closed) as [number | null])[0];
}

async function publish(t: Test, { url, directory }: Daemon): Promise<RunRecord> {
  const bundle = path.join(directory, 'bundle');
  mkdirSync(bundle);
  const listed = { schema_version: 1, name: 'session-42', created: '2026-11-20T01:02:03Z', files: ['a.txt'] };
  writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify(listed));
  writeFileSync(path.join(bundle, 'a.txt'), 'a');
  const chunks: Buffer[] = [];
  for await (const chunk of tar.create({ cwd: bundle }, ['manifest.json', 'a.txt'])) chunks.push(chunk);
  const response = await fetch(`${url}v1/pipelines/maps/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' },
    body: new Uint8Array(Buffer.concat(chunks)),
  });
  t.equal(response.status, 202);
  for (;;) {
    const run = (await (
      await fetch(new URL(response.headers.get('location') ?? '', url))
    ).json()) as RunRecord;
    if (run.finished_at !== null) return run;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

t.test('sends an event for an upload with its run after the commit', async (t) => {
  const states: unknown[] = [];
  const receiver = await startReceiver(t, (response, _attempt, { event }) => {
    const { destination_id: id } = event.data as { destination_id: string };
    states.push(
      JSON.parse(readFileSync(path.join(daemon.directory, id, 'session-42/.publisher.json'), 'utf8')),
    );
    response.writeHead(204).end();
  });
  const daemon = await startDaemon(t, receiver.url, '');
  const run = await publish(t, daemon);
  t.equal(run.status, 'succeeded');
  t.equal(await daemon.stop(), 0, 'sends all events before the daemon ends');
  t.match(
    receiver.received.map(({ event }) => event),
    [1, 2].map(() => ({ type: 'bundle.published', data: { run_id: run.run_id, pipeline_id: 'maps' } })),
  );
  t.match(states, [{ pending: null }, { pending: null }]);
  const lines = daemon.lines();
  t.equal(lines.filter(({ msg }) => msg === 'event').length, 2, 'the notifier of kind log logged both');
  const times = lines.map(({ time }) => String(time));
  const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
  t.same(
    times.filter((time) => !rfc3339.test(time)),
    [],
    'the time of every line has microseconds',
  );
  t.same(times, [...times].sort(), 'microseconds increase');
  t.match(
    lines.find(({ msg, method }) => msg === 'request' && method === 'POST'),
    { request_id: /^[0-9a-f-]{36}$/, run_id: run.run_id, token_id: 'ci', pipeline_id: 'maps', status: 202 },
  );
  t.match(
    lines.filter(({ msg }) => msg === 'event delivered'),
    [1, 2, 3, 4].map(() => ({ run_id: run.run_id, event_type: 'bundle.published', tries: 1 })),
  );
  t.ok(lines.some(({ msg, run_id: id }) => msg === 'storage' && id === run.run_id));
});

t.test('logs a stalled receiver, delays no run, and stops the daemon anyway', async (t) => {
  const receiver = await startReceiver(t, () => undefined);
  const daemon = await startDaemon(t, receiver.url, ', pipelines: [maps]');
  const run = await publish(t, daemon);
  t.equal(run.status, 'succeeded', 'while the receiver still hangs');
  t.equal(await daemon.stop(), 0);
  const warned = daemon.lines().filter(({ code }) => code === 'event_not_delivered');
  t.match(
    warned,
    [1, 2].map(() => ({ level: 40, notifier: 'hook', run_id: run.run_id, msg: /no answer within 5000 ms/ })),
  );
});
