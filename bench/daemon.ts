import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';

export const token = 'the-token-of-the-bench';

export interface Daemon {
  url: string;
  pid: number;
  /** Resident memory in MiB: now, and the peak since the last `resetPeak`. */
  memory(): { residentMiB: number; peakMiB: number };
  resetPeak(): void;
  /** Open file descriptors. */
  handles(): number;
  /** Ends it by SIGTERM and waits. */
  stop(): Promise<void>;
}

export interface DaemonOptions {
  root: string;
  pipelines: number;
  /** Inside `server.http`. */
  http?: string;
  /** Arguments for node, before the program. */
  nodeArguments?: readonly string[];
}

/** The built program with pipelines `p0`, `p1`, …, each with a local destination `public/p0`, … . Throws where it was not built. */
export async function startDaemon({
  root,
  pipelines,
  http = 'queue_size: 1000',
  nodeArguments = [],
}: DaemonOptions): Promise<Daemon> {
  if (!existsSync('dist/cli/main.js')) throw new Error('build first: npm run build');
  mkdirSync(root, { recursive: true });
  const ids = Array.from({ length: pipelines }, (_, index) => `p${index}`);
  const config = path.join(root, 'waybill.yaml');
  writeFileSync(
    config,
    `upload_tokens: [{id: bench, value_env: BENCH_TOKEN, pipelines: [${ids.join(', ')}]}]
server:
  http: {listen: "127.0.0.1:0", ${http}}
  staging: {directory: ./staging}
pipelines:
${ids
  .map(
    (id) => `  - id: ${id}
    source: {backend: http_upload, max_upload_size: 4GiB}
    destinations: [{id: web, backend: local, path: ./public/${id}}]`,
  )
  .join('\n')}
`,
  );
  const child = spawn(
    process.execPath,
    [...nodeArguments, path.resolve('dist/cli/main.js'), 'serve', '--config', config],
    { cwd: root, env: { ...process.env, BENCH_TOKEN: token }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const url = await new Promise<string>((resolve, reject) => {
    let last = '';
    createInterface({ input: child.stderr }).on('line', (line) => {
      last = line;
      const found = /"url":"([^"]+)"/.exec(line);
      if (found?.[1] !== undefined) resolve(found[1]);
    });
    child.once('close', (code) => reject(new Error(`the daemon ended with ${code}: ${last}`)));
  });
  const pid = child.pid!;
  return {
    url,
    pid,
    memory: () => ({ residentMiB: statusMiB(pid, 'VmRSS'), peakMiB: statusMiB(pid, 'VmHWM') }),
    resetPeak: () => writeFileSync(`/proc/${pid}/clear_refs`, '5'),
    handles: () => readdirSync(`/proc/${pid}/fd`).length,
    stop: async () => {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'close');
    },
  };
}

function statusMiB(pid: number, name: string): number {
  const [, kib] =
    new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kib) / 1024;
}
