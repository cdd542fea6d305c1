import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { ensureInstalled } from './debian.ts';
import { freePort } from './free-port.ts';
import { cleanUpAtExit, endService, hasEnded, spawnService } from './service-process.ts';

const run = promisify(execFile);

export interface Prometheus {
  /** The `data` of a response of its HTTP API. Throws with its message if it rejects a query. */
  ask(endpoint: string, parameters?: Record<string, string>): Promise<unknown>;
}

/** Debian's promtool, installed if it is missing. Resolves to its output, and throws if it fails. */
export async function promtool(...args: readonly string[]): Promise<string> {
  await ensureInstalled('prometheus');
  return (await run('promtool', [...args])).stdout;
}

/**
 * Debian's prometheus with these rules, which scrapes these targets twice a second as the job "waybill".
 *
 * @param targets Hosts with ports.
 */
export async function startPrometheus(
  t: Pick<Test, 'teardown'>,
  { targets, rules }: { targets: readonly string[]; rules: string },
): Promise<Prometheus> {
  await ensureInstalled('prometheus');
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-prometheus-'));
  const address = `127.0.0.1:${await freePort()}`;
  const config = path.join(directory, 'prometheus.yml');
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '1s' },
      rule_files: [path.resolve(rules)],
      scrape_configs: [{ job_name: 'waybill', scrape_timeout: '500ms', static_configs: [{ targets }] }],
    }),
  );
  const child = spawnService(
    'prometheus',
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${path.join(directory, 'data')}`,
      `--web.listen-address=${address}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  let log = '';
  child.stderr?.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const revoke = cleanUpAtExit(directory, () => [child]);
  t.teardown(async () => {
    revoke();
    await endService(child);
    rmSync(directory, { recursive: true, force: true });
  });
  const isReady = (): Promise<boolean> =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  while (!(await isReady())) {
    if (hasEnded(child)) throw new Error(`prometheus ended:\n${log}`);
    await systemClock.sleep(20);
  }
  return {
    ask: async (endpoint, parameters = {}) => {
      const response = await fetch(
        `http://${address}/api/v1/${endpoint}?${new URLSearchParams(parameters).toString()}`,
      );
      const answer = (await response.json()) as { status: string; data?: unknown; error?: string };
      if (answer.status !== 'success') throw new Error(`${parameters['query'] ?? endpoint}: ${answer.error}`);
      return answer.data;
    },
  };
}
