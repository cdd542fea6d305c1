import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { createSemaphore } from '../../src/core/lib/parallel.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { program } from '../cli/process.ts';
import { acceptedId, bundle, launchApi, type Place, token, upload } from '../hosts/processes.ts';
import { startRedis } from '../services/redis.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { isExhaustive, sampleOf } from '../support/sampling.ts';
import { bytesBefore, causes, type Cell, openStage, type Stage, type StorageKind } from './outage-cells.ts';

/*
 * The built daemon in storage outages, in real time. Each cell of the matrix has a pipeline and two uploads:
 * the outage begins in the middle of the first run, and the second upload is accepted during the outage. Both
 * must be published without a command once the outage is over. If it lasts longer than `retry_for`, both must
 * fail with the cause, without a try after `retry_for`. The first upload must be published when it is sent
 * again. `verify` is clean in the end. A sample has one quick fault of each storage. The exhaustive mode runs
 * all cells at once, the longest first, and takes 40 minutes. `WAYBILL_TEST_EXHAUSTIVE=1 node --import=tsx
 * test/faults/outages.test.ts` prints their times, too.
 *
 * Elsewhere: `cancel`, `retry` and newer uploads of a waiting run, for each queue in
 * `test/contract/retries.ts`; the same over HTTP in `test/hosts/storage-away.test.ts`.
 */

t.setTimeout(0);

const queues = ['memory', 'embedded', 'bullmq'] as const;
type Queue = (typeof queues)[number];

const [second, minute] = [1000, 60_000];
const retryForMs = 30 * minute;
/**
 * How long before `retry_for` a run may fail, because the last attempt may take three minutes (`nextTry`).
 */
const earlyMs = 2.5 * minute;
/** Cells that start concurrently. On a busy machine, starting a thread takes as long as a short outage. */
const starts = createSemaphore(3);

/** The duration of an outage in milliseconds. null: until the runs have failed. */
const durations: Record<string, number | null> = isExhaustive
  ? { '31 min': null, '5 min': 5 * minute, '10 s': 10 * second }
  : { '5 s': 5 * second };

/** The others are noticed only after a minute. */
const quick = ['disconnected', 'unmounted', 'refuse', 'reset', '503', 'dns'];

interface Daemon {
  queue: Queue;
  url: string;
  place: Place;
}

interface Row {
  cell: string;
  /** `2 tries, 3.4 s` by queue. */
  results: Partial<Record<Queue, string>>;
}

const storages = Object.keys(causes) as StorageKind[];
const chosenQueues = isExhaustive ? queues : sampleOf(queues, 1, 'outages: queue');
const chosen = storages.flatMap((storage) => {
  const all = Object.keys(causes[storage]);
  const faults = isExhaustive
    ? all
    : sampleOf(
        all.filter((fault) => quick.includes(fault)),
        1,
        `outages: ${storage}`,
      );
  return faults.map((fault) => ({ storage, fault }));
});
const idOf = (storage: string, fault: string, lasts: string): string =>
  `${storage}-${fault}-${lasts}`.replaceAll(' ', '-');

t.test('every accepted run is published after an outage, or fails with the cause', async (t) => {
  const root = mkdtempSync(path.join(memoryDirectory(), 'waybill-outages-'));
  // Runs after the teardown of the stage, which thaws the disks.
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const stage = await openStage(t, root);
  const rows: Row[] = [];
  const cells = new Map<string, Cell>();
  const daemons: Daemon[] = [];
  for (const queue of chosenQueues) daemons.push(await startDaemon(t, { queue, root, stage, cells }));

  // A file without output for fifteen minutes is killed. tap holds back comments until the next assertion.
  const signs = setInterval(() => t.pass('the outages continue'), 5 * minute);
  t.teardown(() => clearInterval(signs));
  await Promise.all(
    Object.entries(durations).flatMap(([lasts, lastsMs]) =>
      chosen.flatMap(({ storage, fault }) => {
        const id = idOf(storage, fault, lasts);
        const row: Row = { cell: `${storage}, ${fault}, ${lasts}`, results: {} };
        rows.push(row);
        return daemons.map(async ({ queue, url }) => {
          const cell = cells.get(`${queue}-${id}`) as Cell;
          const cause = causeOf(storage, fault);
          try {
            row.results[queue] = await resultOf(t, { cell, url, pipeline: id, lastsMs, cause });
          } catch (error) {
            // The other cells go on.
            row.results[queue] = 'broken';
            t.fail(`${queue}: ${row.cell}: ${String(error)}`);
          }
          t.comment(`${queue}: ${row.cell}: ${row.results[queue]}`);
        });
      }),
    ),
  );
  for (const { queue, place } of daemons)
    t.equal(await foundIn(place, stage), '', `${queue}: verify finds nothing`);
  const line = (first: string, cellOf: (queue: Queue) => string): string =>
    [first.padEnd(28), ...chosenQueues.map((queue) => cellOf(queue).padEnd(34))].join(' ').trimEnd();
  t.comment(line('tries, time after the outage', (queue) => queue));
  for (const { cell, results } of rows) t.comment(line(cell, (queue) => results[queue] ?? ''));
  t.comment(`report: ${rows.length * daemons.length} outages`);
});

function causeOf(storage: StorageKind, fault: string): RegExp {
  return (causes[storage] as Record<string, RegExp>)[fault] as RegExp;
}

/** Starts a daemon with a pipeline for each of its cells. */
async function startDaemon(
  t: Test,
  { queue, root, stage, cells }: { queue: Queue; root: string; stage: Stage; cells: Map<string, Cell> },
): Promise<Daemon> {
  const directory = path.join(root, queue);
  mkdirSync(directory);
  const env: Record<string, string> = { TOKEN_CI: token, ...stage.env };
  const pipelines: string[] = [];
  const yaml: string[] = [];
  for (const { storage, fault } of chosen)
    for (const lasts of Object.keys(durations)) {
      const id = idOf(storage, fault, lasts);
      const cell = await stage.openCell(`${queue}-${id}`, storage, fault);
      cells.set(`${queue}-${id}`, cell);
      pipelines.push(id);
      yaml.push(
        `  - {id: ${id}, source: {backend: http_upload}, destinations: [{id: out, ${cell.destination}}]}`,
      );
    }
  let driver = `{driver: ${queue}}`;
  if (queue === 'embedded') driver = '{driver: embedded, directory: ./queue}';
  if (queue === 'bullmq') {
    const redis = await startRedis();
    t.teardown(() => redis.close());
    env['REDIS_URL'] = redis.url;
    driver = '{driver: bullmq, redis_url_env: REDIS_URL}';
  }
  const config = path.join(directory, 'waybill.yml');
  writeFileSync(
    config,
    `upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [${pipelines.join(', ')}]}]
server:
  http: {listen: "127.0.0.1:0", queue_size: 200, max_concurrency: ${pipelines.length + 1}}
  staging: {directory: ./staging}
  queue: ${driver}
pipelines:
${yaml.join('\n')}
`,
  );
  const place = { root: directory, config, env, pipelines };
  const { url } = await launchApi(t, place, ['serve'], stage.namespace.through);
  return { queue, url, place };
}

interface Point {
  cell: Cell;
  url: string;
  pipeline: string;
  lastsMs: number | null;
  cause: RegExp;
}

/**
 * Runs one cell. Returns the number of attempts of both runs, and the seconds from the end of the outage to
 * their end. If they fail, the seconds count from the start of `retry_for`.
 */
async function resultOf(t: Test, { cell, url, pipeline, lastsMs, cause }: Point): Promise<string> {
  const send = async (name: string, bytes: number): Promise<string> => {
    const headers = { 'idempotency-key': randomUUID() };
    const answer = await untilAnswered(() => upload(url, pipeline, bundle(name, bytes), headers));
    return acceptedId(answer);
  };
  const release = await starts.acquire(1);
  const first = await cell.begin(() => send('first', 4 * bytesBefore));
  const ids = [first, await send('second', 1000)];
  release();
  if (lastsMs === null) {
    const lastTries = new Map<string, string>();
    const onWaiting = ({ run_id: id, next_try_at: at }: RunRecord): void => void lastTries.set(id, at ?? '');
    const failed = await Promise.all(ids.map((id) => finished(url, id, onWaiting)));
    for (const record of failed) {
      const { status, finished_at: at, error, destinations } = record;
      const reported = error ?? destinations[0]?.error;
      t.equal(status, 'failed', pipeline);
      t.match(reported, { retryable: true, message: cause }, pipeline);
      const afterMs = Date.parse(at ?? '') - firstFailureOf(record);
      t.ok(afterMs >= retryForMs - earlyMs, `${pipeline}: not long before retry_for has passed`);
      const lastTryMs = Date.parse(lastTries.get(record.run_id) ?? '') - firstFailureOf(record);
      t.ok(lastTryMs <= retryForMs, `${pipeline}: no try after retry_for`);
    }
    await cell.end();
    const again = await finished(url, await send('first', 1000));
    t.equal(again.status, 'succeeded', pipeline);
    return failed.map((record) => timesOf(record, firstFailureOf(record))).join('; ');
  }
  await systemClock.sleep(lastsMs);
  await cell.end();
  const endedAt = Date.now();
  const published = await Promise.all(ids.map((id) => finished(url, id)));
  for (const { status, error, destinations } of published)
    t.match(
      { status, errors: [error, ...destinations.map((one) => one.error)] },
      { status: 'succeeded', errors: [null, null] },
      pipeline,
    );
  return published.map((record) => timesOf(record, endedAt)).join('; ');
}

/** The start of `retry_for`. The second upload waits for the first attempt of the first. */
function firstFailureOf({ retry_until: until }: RunRecord): number {
  return Date.parse(until ?? '') - retryForMs;
}

function timesOf({ attempt, finished_at: at }: RunRecord, sinceMs: number): string {
  const seconds = (Date.parse(at ?? '') - sinceMs) / second;
  return `${attempt === 1 ? '1 try' : `${attempt} tries`} ${seconds.toFixed(1)} s`;
}

/** Waits until a run is over. Calls `onWaiting` while it waits for a retry. */
async function finished(
  url: string,
  id: string,
  onWaiting: (record: RunRecord) => void = () => undefined,
): Promise<RunRecord> {
  for (;;) {
    const answer = await untilAnswered(() => fetch(`${url}runs/${id}?wait=30`));
    const record = (await answer.json()) as RunRecord;
    if (record.finished_at !== null) return record;
    if (record.next_try_at !== null) onWaiting(record);
  }
}

/** Repeats a request while its failures are transient: on a busy machine, Redis does not answer in time. */
async function untilAnswered(request: () => Promise<Response>): Promise<Response> {
  for (;;) {
    const answer = await request();
    if (answer.ok) return answer;
    const text = await answer.text();
    if (!(JSON.parse(text) as { retryable: boolean }).retryable) throw new Error(`${answer.status} ${text}`);
    await systemClock.sleep(second);
  }
}

/** Reads every published byte of all pipelines. Returns what `verify` prints if it finds anything. */
async function foundIn(place: Place, { namespace }: Stage): Promise<string> {
  const command = [process.execPath, program, 'verify', '--config', place.config];
  const [nsenter = '', ...args] = [...namespace.through, ...command];
  const env = { PATH: process.env['PATH'] ?? '', HOME: place.root, ...place.env };
  return promisify(execFile)(nsenter, args, { env, maxBuffer: 64 << 20 }).then(
    () => '',
    (error: unknown) => `${String(error)} ${String((error as { stdout?: unknown }).stdout)}`,
  );
}
