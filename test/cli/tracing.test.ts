import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { startReceiver } from '../core/notify/receiver.ts';
import { startCollector } from '../services/collector.ts';
import { configuration, type Ended, manifest, program, web } from './process.ts';

t.setTimeout(0);

const secret = `whsec_${Buffer.alloc(32, 'k').toString('base64')}`;
const parent = { traceId: '0af7651916cd43dd8448eb211c80319c', spanId: 'b7ad6b7169203331' };
const traceparent = `00-${parent.traceId}-${parent.spanId}-01`;

/**
 * `waybill run` on a bundle of one file. It is asynchronous, because collector and receiver are in this
 * process.
 */
async function run(
  directory: string,
  more: string,
  { args = [], env = {} }: { args?: string[]; env?: Record<string, string> } = {},
): Promise<Ended> {
  mkdirSync(path.join(directory, 'source'), { recursive: true });
  writeFileSync(path.join(directory, 'source/a.txt'), 'a');
  writeFileSync(path.join(directory, 'source/manifest.json'), manifest(['a.txt']));
  writeFileSync(path.join(directory, 'waybill.yml'), configuration([web], more));
  const child = spawn(process.execPath, [program, 'run', '--config', 'waybill.yml', ...args], {
    cwd: directory,
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', HOOK: secret, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { status, stdout, stderr };
}

const notifying = (url: string): string =>
  `notifiers: [{id: hook, kind: webhook, url: "${url}", secret_env: HOOK}]`;

t.test("a run of the command line is a trace below the caller's trace", async (t) => {
  const collector = await startCollector(t);
  const hook = await startReceiver(t);
  const settings = `tracing: {endpoint: '${collector.url}'}\n${notifying(hook.url)}`;
  const ended = await run(t.testdir(), settings, { env: { TRACEPARENT: traceparent, TRACESTATE: 'a=1' } });
  t.equal(ended.status, 0, ended.stderr);
  const spans = new Map(collector.spans.map((span) => [span.name, span]));
  t.same([...spans.keys()].sort(), ['destination', 'notify', 'run']);
  t.match(spans.get('run'), { ...parent, spanId: /./, parentSpanId: parent.spanId });
  t.match(spans.get('destination'), { traceId: parent.traceId, parentSpanId: spans.get('run')?.spanId });
  t.match(spans.get('notify'), { traceId: parent.traceId, parentSpanId: spans.get('destination')?.spanId });
  t.equal(hook.received[0]?.headers['traceparent'], `00-${parent.traceId}-${spans.get('notify')?.spanId}-01`);
  t.equal(hook.received[0]?.headers['tracestate'], 'a=1');

  const alone = await startCollector(t);
  const other = await run(t.testdir(), `tracing: {endpoint: '${alone.url}'}`);
  t.equal(other.status, 0, other.stderr);
  t.match(
    alone.spans.find(({ name }) => name === 'run'),
    { parentSpanId: '' },
  );
});

t.test('a failure is recorded in the spans, and a dry run has none', async (t) => {
  const collector = await startCollector(t);
  const settings = `tracing: {endpoint: '${collector.url}'}`;
  const root = t.testdir({ dry: {}, failing: { web: { 'foreign.txt': 'x' } } });
  const dry = await run(path.join(root, 'dry'), settings, { args: ['--dry-run'] });
  t.equal(dry.status, 0, dry.stderr);
  t.same(collector.spans, []);
  const failed = await run(path.join(root, 'failing'), settings);
  t.equal(failed.status, 1);
  t.match(
    collector.spans.find(({ name }) => name === 'destination'),
    { status: 2, attributes: { 'error.type': 'unmanaged_content' } },
  );
  t.match(
    collector.spans.find(({ name }) => name === 'run'),
    { status: 2 },
  );
});

t.test('a run succeeds even if its collector is unreachable', async (t) => {
  const ended = await run(t.testdir(), "tracing: {endpoint: 'http://127.0.0.1:1'}");
  t.equal(ended.status, 0, ended.stderr);
});

t.test('missing headers are reported before anything is published', async (t) => {
  const ended = await run(t.testdir(), 'tracing: {headers_env: NOT_THERE}');
  t.match(ended, { status: 2, stderr: /NOT_THERE \(needed by tracing\)/ });
});
