import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { program } from '../cli/process.ts';
import { bundleTar } from '../fixtures/tar.ts';

export const token = 'the-token-of-ci-on-this-host';
export const adminToken = 'the-token-of-the-operator';

export interface Place {
  root: string;
  config: string;
  env: Record<string, string>;
  pipelines: string[];
}

export interface PlaceSettings {
  /** By default, the queue is in memory, or on this disk. */
  redisUrl?: string;
  /** The directory of an embedded queue. */
  embedded?: string;
  pipelines?: number;
  /** The address of the APIs. */
  listen?: string;
  http?: string;
  /** The complete `notifiers` section. */
  notifiers?: string;
  /** The base URL of a collector. If set, traces are recorded. */
  collector?: string;
  /** The timeout of silent workers. Default: 3s, for tests that kill one. */
  workerTimeout?: string;
  /** More settings of `server.queue`. */
  queue?: string;
  /** The complete `server.staging` section. */
  staging?: string;
  /** More settings of `server`. */
  server?: string;
  env?: Record<string, string>;
}

/**
 * A configuration for one or several hosts: upload pipelines p1, p2, … to the local destinations public/p1,
 * public/p2, …
 */
export function layOut(t: Pick<Test, 'teardown'>, settings: PlaceSettings): Place {
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-hosts-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));
  const pipelines = Array.from({ length: settings.pipelines ?? 1 }, (_, index) => `p${index + 1}`);
  const config = path.join(root, 'waybill.yml');
  const yaml = `
upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [${pipelines.join(', ')}]}]
server:
  http: {listen: '${settings.listen ?? '127.0.0.1'}:0', queue_size: 200, ${settings.http ?? ''}}
  admin_token_env: TOKEN_ADMIN
  staging: ${settings.staging ?? '{directory: ./staging}'}
  queue: ${queueOf(settings)}
  ${settings.server ?? ''}
${settings.collector === undefined ? '' : `tracing: {endpoint: '${settings.collector}'}`}
notifiers: ${settings.notifiers ?? '[]'}
pipelines:
${pipelines
  .map(
    (id) =>
      `  - {id: ${id}, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./public/${id}}]}`,
  )
  .join('\n')}
`;
  writeFileSync(config, yaml);
  const env: Record<string, string> = { TOKEN_CI: token, TOKEN_ADMIN: adminToken, ...settings.env };
  if (settings.redisUrl !== undefined) env['REDIS_URL'] = settings.redisUrl;
  return { root, config, env, pipelines };
}

function queueOf({ redisUrl, embedded, queue = '', workerTimeout = '3s' }: PlaceSettings): string {
  const more = `worker_timeout: ${workerTimeout}${queue}`;
  if (redisUrl !== undefined) return `{driver: bullmq, redis_url_env: REDIS_URL, ${more}}`;
  return embedded === undefined ? '{driver: memory}' : `{driver: embedded, directory: ${embedded}}`;
}

export interface LogLine {
  time: string;
  level: number;
  msg: string;
  run_id?: string;
  pipeline_id?: string;
  url?: string;
  take?: number;
  trace_id?: string;
}

export interface Launched {
  child: ChildProcess;
  lines: LogLine[];
  /** Its whole output so far. */
  output: () => string;
  /** The first past or future line that matches. Rejects if the process ends without one. */
  until: (matches: (line: LogLine) => boolean) => Promise<LogLine>;
  kill: (signal: NodeJS.Signals) => Promise<number | null>;
  killedAt: () => string | null;
}

/** A process of the built program, which is killed after the test. */
export function launch(
  t: Pick<Test, 'teardown'>,
  place: Place,
  args: readonly string[],
  through: readonly string[] = [],
): Launched {
  const command = [...through, process.execPath, program, ...args, '--config', place.config];
  const child = spawn(command[0] as string, command.slice(1), {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '', HOME: place.root, ...place.env },
  });
  const exited = once(child, 'exit');
  const lines: LogLine[] = [];
  const waiting = new Set<() => void>();
  let output = '';
  let killed: string | null = null;
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
  createInterface({ input: child.stderr }).on('line', (line) => {
    output += `${line}\n`;
    if (line.startsWith('{')) lines.push(JSON.parse(line) as LogLine);
    for (const look of waiting) look();
  });
  const kill = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) {
      killed ??= new Date().toISOString();
      child.kill(signal);
      await exited;
    }
    return child.exitCode;
  };
  t.teardown(() => kill('SIGKILL'));
  return {
    child,
    lines,
    output: () => output,
    kill,
    killedAt: () => killed,
    until: (matches) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const found = lines.find(matches);
          if (found === undefined) return;
          waiting.delete(look);
          resolve(found);
        };
        waiting.add(look);
        look();
        void exited.then(() => reject(new Error(`the process ended:\n${output}`)));
      }),
  };
}

/** A listening API, and its base URL. */
export async function launchApi(
  t: Pick<Test, 'teardown'>,
  place: Place,
  args: readonly string[] = ['serve', '--no-workers'],
  through: readonly string[] = [],
): Promise<Launched & { url: string }> {
  const launched = launch(t, place, args, through);
  const { url = '' } = await launched.until(({ msg }) => msg === 'listening');
  return { ...launched, url };
}

export async function launchWorker(
  t: Pick<Test, 'teardown'>,
  place: Place,
  through: readonly string[] = [],
): Promise<Launched> {
  const launched = launch(t, place, ['worker'], through);
  await launched.until(({ msg }) => msg === 'working');
  return launched;
}

/** A bundle with its own name and content. */
export function bundle(name: string, bytes = 20_000): Buffer {
  const body = Buffer.alloc(bytes, name);
  return bundleTar({ 'data.bin': body, 'name.txt': name }, { name });
}

export async function upload(
  url: string,
  pipeline: string,
  body: Buffer,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(`${url}v1/pipelines/${pipeline}/upload`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar', ...headers },
    body: new Uint8Array(body),
  });
}

export async function acceptedId(response: Response): Promise<string> {
  const answer = (await response.json()) as { run_id?: string };
  const { run_id: id } = answer;
  if (response.status !== 202 || id === undefined)
    throw new Error(`not accepted: ${response.status} ${JSON.stringify(answer)}`);
  return id;
}

/** The record of a run once it is over. A failed request is repeated, because Redis may be unreachable. */
export async function follow(url: string, runId: string): Promise<RunRecord> {
  for (;;) {
    const response = await fetch(`${url}runs/${runId}`);
    const record = (await response.json()) as RunRecord;
    if (response.ok && record.finished_at !== null) return record;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/**
 * Kills a worker in the middle of a run, once it has finished `after` runs. Returns the ids of its unfinished
 * runs. A run may end between its log line and a signal, so the worker is stopped before the API is asked.
 */
export async function killInRun(worker: Launched, url: string, after = 0): Promise<string[]> {
  const idsOf = (message: string): string[] =>
    worker.lines.filter(({ msg }) => msg === message).map(({ run_id = '' }) => run_id);
  await worker.until(() => idsOf('run finished').length >= after);
  for (;;) {
    const known = new Set(idsOf('run started'));
    await worker.until(({ msg, run_id = '' }) => msg === 'run started' && !known.has(run_id));
    worker.child.kill('SIGSTOP');
    const finished = new Set(idsOf('run finished'));
    const open = idsOf('run started').filter((id) => !finished.has(id));
    const statuses = await Promise.all(open.map((id) => statusOf(url, id)));
    const running = open.filter((_, index) => statuses[index] === 'running');
    if (running.length > 0) {
      await worker.kill('SIGKILL');
      return running;
    }
    worker.child.kill('SIGCONT');
  }
}

async function statusOf(url: string, runId: string): Promise<string> {
  const response = await fetch(`${url}runs/${runId}`);
  return ((await response.json()) as RunRecord).status;
}

/**
 * Runs of one pipeline that overlapped, by the logs of the workers. The runs of a killed worker end with it.
 * A worker logs the end of a run after Redis has recorded it, and the next run may start in between: the
 * records decide such cases.
 */
export async function overlaps(workers: readonly Launched[], url: string): Promise<string[]> {
  const moments = workers.flatMap((worker) =>
    worker.lines
      .filter(({ msg }) => /^run (started|finished|returned to the queue)$/.test(msg))
      .map(({ time, msg, run_id = '', pipeline_id = '' }) => ({
        time,
        starts: msg === 'run started',
        run: run_id,
        pipeline: pipeline_id,
        worker,
      })),
  );
  moments.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : Number(a.starts) - Number(b.starts)));
  const under = new Map<string, (typeof moments)[number]>();
  const found: string[] = [];
  for (const moment of moments) {
    const before = under.get(moment.pipeline);
    if (!moment.starts) {
      if (before?.run === moment.run) under.delete(moment.pipeline);
      continue;
    }
    under.set(moment.pipeline, moment);
    const died = before?.worker.killedAt() ?? null;
    if (before === undefined || (died !== null && died <= moment.time)) continue;
    const [first, second] = await Promise.all([follow(url, before.run), follow(url, moment.run)]);
    const isOver = (first.finished_at ?? '9') <= (second.started_at ?? '0');
    if (!isOver) found.push(`${moment.run} started at ${moment.time} while ${before.run} ran`);
  }
  return found;
}
