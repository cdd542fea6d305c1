import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';

export const token = 'the-token-of-the-benchmarks';

const profile = process.env['BENCH_PROFILE'];
/** Arguments for node. If BENCH_PROFILE is set, it is a directory for a CPU profile of the daemon. */
export const profiling: readonly string[] =
  profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${path.resolve(profile)}`];

/** A process with an API. */
export interface ApiProcess {
  url: string;
  pid: number;
  /** Returns the memory in use, in MiB: now, and the maximum since `resetPeak` was called. */
  memory(): { residentMiB: number; peakMiB: number };
  resetPeak(): void;
  /** Returns the number of open file descriptors. */
  handles(): number;
}

export interface Daemon extends ApiProcess {
  /** Other APIs that use the same queue. */
  others: readonly ApiProcess[];
  /** Starts more worker processes. Resolves to their process ids once they are ready. */
  addWorkers(count: number): Promise<number[]>;
  /** Sends SIGTERM and waits for the process to exit. */
  stop(): Promise<void>;
  /** Sends SIGKILL and waits for the process to exit. */
  kill(): Promise<void>;
}

export interface DaemonOptions {
  root: string;
  pipelines: number;
  /** The default is any free port. */
  port?: number;
  /** Additional settings in `server.http`. */
  http?: string;
  /** The default is a queue in memory. */
  shared?: SharedQueue;
  /** Whether the queue is stored on disk, below `root`. */
  embedded?: boolean;
  /** Additional settings in `server.staging`. */
  staging?: string;
  /** Returns additional settings for a pipeline's destination. */
  destinationOf?: (index: number) => string;
  /** Arguments for Node.js. */
  nodeArguments?: readonly string[];
}

export interface SharedQueue {
  redisUrl: string;
  /** The number of `waybill worker` processes. */
  workers: number | 'the APIs do';
  /** The number of APIs. The default is 1. */
  apis?: number;
}

/**
 * Starts the daemon with the pipelines `p0`, `p1` and so on, which publish to the local directories
 * `public/p0`, `public/p1` and so on. Throws if nothing has been built.
 */
export async function startDaemon({
  root,
  pipelines,
  port = 0,
  http = 'queue_size: 1000',
  shared,
  embedded = false,
  staging = '',
  destinationOf = () => '',
  nodeArguments = [],
}: DaemonOptions): Promise<Daemon> {
  if (!existsSync('dist/cli/main.js')) throw new Error('build first: npm run build');
  mkdirSync(root, { recursive: true });
  const ids = Array.from({ length: pipelines }, (_, index) => `p${index}`);
  const redis = shared === undefined ? {} : { REDIS_URL: shared.redisUrl };
  const config = path.join(root, 'waybill.yaml');
  writeFileSync(
    config,
    `upload_tokens: [{id: bench, value_env: BENCH_TOKEN, pipelines: [${ids.join(', ')}]}]
server:
  http: {listen: "127.0.0.1:${port}", ${http}}
  staging: {directory: ./staging, ${staging}}
  queue: ${shared !== undefined ? '{driver: bullmq, redis_url_env: REDIS_URL}' : embedded ? '{driver: embedded, directory: ./queue}' : '{driver: memory}'}
pipelines:
${ids
  .map(
    (id, index) => `  - id: ${id}
    source: {backend: http_upload, max_upload_size: 4GiB}
    destinations: [{id: web, backend: local, path: ./public/${id}, ${destinationOf(index)}}]`,
  )
  .join('\n')}
`,
  );
  const start = (...args: string[]): ChildProcess =>
    spawn(
      process.execPath,
      [...nodeArguments, path.resolve('dist/cli/main.js'), ...args, '--config', config],
      {
        cwd: root,
        env: { ...process.env, BENCH_TOKEN: token, ...redis },
        stdio: ['ignore', 'ignore', 'pipe'],
      },
    );
  const apis =
    shared === undefined
      ? [start('serve')]
      : Array.from({ length: shared.apis ?? 1 }, () =>
          shared.workers === 'the APIs do' ? start('serve') : start('serve', '--no-workers'),
        );
  const workers: ChildProcess[] = [];
  const addWorkers = async (count: number): Promise<number[]> => {
    const added = Array.from({ length: count }, () => start('worker'));
    workers.push(...added);
    await Promise.all(added.map((worker) => logLine(worker, /"msg":"working"/)));
    return added.map(({ pid }) => pid!);
  };
  const [first, ...others] = await Promise.all(apis.map(answering));
  if (typeof shared?.workers === 'number') await addWorkers(shared.workers);
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    for (const each of [...apis, ...workers]) {
      each.kill(signal);
      if (each.exitCode === null && each.signalCode === null) await once(each, 'close');
    }
  };
  return { ...first!, others, addWorkers, stop: () => end('SIGTERM'), kill: () => end('SIGKILL') };
}

/** Waits until a process listens. */
async function answering(child: ChildProcess): Promise<ApiProcess> {
  const url = (await logLine(child, /"url":"([^"]+)"/))[1]!;
  const pid = child.pid!;
  return {
    url,
    pid,
    memory: () => ({ residentMiB: statusMiB(pid, 'VmRSS'), peakMiB: statusMiB(pid, 'VmHWM') }),
    resetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, '5'),
    handles: () => readdirSync(`/proc/${pid}/fd`).length,
  };
}

/** Waits for a log line that matches, and returns the match. Rejects if the process exits before that. */
function logLine(child: ChildProcess, form: RegExp): Promise<RegExpExecArray> {
  return new Promise((resolve, reject) => {
    let last = '';
    createInterface({ input: child.stderr! }).on('line', (line) => {
      last = line;
      const found = form.exec(line);
      if (found !== null) resolve(found);
    });
    child.once('close', (code) => reject(new Error(`the daemon ended with ${code}: ${last}`)));
  });
}

function statusMiB(pid: number, name: string): number {
  const [, kib] =
    new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}
