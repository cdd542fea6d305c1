import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { systemClock } from '../../src/core/lib/clock.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import { stagedIn } from '../support/staged.ts';
import { acceptedId, bundle, launchApi, type Launched, type Place, upload } from './processes.ts';

/** Checks for tests that kill daemons with an embedded queue repeatedly. */

export type Daemon = Launched & { url: string };

/** The state known to clients: the uploads that were answered with 202, in the order of the answers. */
export interface Accepted {
  name: string;
  pipeline: string;
  run: string;
}

/** Repeats the upload with its key until it is accepted, across restarts of the daemon. */
export async function untilAccepted(
  url: () => string,
  { name, pipeline }: { name: string; pipeline: string },
  onRefused: () => void = () => undefined,
): Promise<string> {
  for (;;) {
    const response = await upload(url(), pipeline, bundle(name, 2_000), { 'idempotency-key': name }).catch(
      () => null,
    );
    if (response?.status === 202) {
      const run = await acceptedId(response).catch(() => null);
      if (run !== null) return run;
    }
    await response?.arrayBuffer().catch(() => undefined);
    onRefused();
    await systemClock.sleep(20);
  }
}

/** The records of all runs, each pipeline's in the order of acceptance, once all have ended. */
export async function allFinished({ url }: Daemon, { pipelines: ids }: Place): Promise<RunRecord[]> {
  for (;;) {
    const pages = await Promise.all(
      ids.map(async (id) => {
        const headers = { authorization: 'Bearer the-token-of-ci-on-this-host' };
        const response = await fetch(`${url}v1/pipelines/${id}/runs?limit=500`, { headers });
        return ((await response.json()) as { runs: RunRecord[] }).runs.toReversed();
      }),
    );
    const records = pages.flat();
    if (records.every(({ finished_at: at }) => at !== null)) return records;
    await systemClock.sleep(100);
  }
}

export function startOf({ started_at: at }: RunRecord): string {
  return at ?? '';
}

export function linesOf({ root }: Place): { id: string; type: string; data: { run_id: string } }[] {
  const file = path.join(root, 'events.jsonl');
  const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
  // A line that was truncated by a kill is followed by the complete one.
  return lines.flatMap((line) => {
    const begin = line.lastIndexOf('{"id":');
    try {
      return [JSON.parse(line.slice(begin)) as { id: string; type: string; data: { run_id: string } }];
    } catch {
      return [];
    }
  });
}

/** The runs in `bundle.published` events. */
export function publishedEvents(place: Place): Set<string> {
  return new Set(
    linesOf(place).flatMap(({ type, data }) => (type === 'bundle.published' ? [data.run_id] : [])),
  );
}

/** If the retention has passed, the next start deletes every run and its staged files. */
export async function nothingStays(
  t: { equal: (a: unknown, b: unknown) => unknown },
  place: Place,
  { staging = path.join(place.root, 'staging'), through = [] }: { staging?: string; through?: string[] } = {},
): Promise<void> {
  const yaml = readFileSync(place.config, 'utf8');
  writeFileSync(place.config, yaml.replace('queue_size: 200,', 'queue_size: 200, retention: 1s,'));
  const daemon = await launchApi({ teardown: () => undefined }, place, ['serve'], through);
  while (stagedIn(staging).length > 0) await systemClock.sleep(50);
  t.equal(await daemon.kill('SIGTERM'), 0);
}
