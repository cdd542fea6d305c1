/**
 * Measures how long it takes to render the pages of the console if there are many runs. Environment:
 * BENCH_RUNS (10,000).
 */
import type { Test } from 'tap';
import { startApi, tokens } from '../test/api/harness.ts';
import { runResult } from '../test/contract/queue.ts';
import { goal } from './measure.ts';

const runs = Number(process.env['BENCH_RUNS'] ?? 10_000);
const rounds = 20;
const maxMs = 300;
const maxKib = 100;
const pages: Record<string, string> = {
  overview: 'console',
  pipeline: 'console/pipelines/maps',
  search: 'console/runs?q=published',
  'search without results': 'console/runs?q=no+run+has+this',
  trends: 'console/pipelines/maps/trends',
};

/** Prints the median duration of each page, taken from the daemon's log, and its size. */
export async function consolePages(): Promise<boolean> {
  const teardowns: (() => unknown)[] = [];
  const api = await startApi(
    { teardown: (end: () => unknown) => teardowns.unshift(end) } as unknown as Test,
    {
      http: { queueSize: 2 * runs, retentionMs: 3_600_000 },
    },
  );
  const { queue } = api.ports;
  await queue.start(async () => runResult('ok'));
  for (let index = 0; index < runs; index++) {
    const admission = await queue.reserve({ pipelineId: 'maps' });
    const job = { runId: `maps.${index}`, pipelineId: 'maps', staged: null } as const;
    await admission.accept(job, `sha256:${'0'.repeat(64)}` as Parameters<typeof admission.accept>[1]);
  }
  await queue.untilFinished(`maps.${runs - 1}`, AbortSignal.timeout(600_000));
  const login = await fetch(`${api.origin}/console/login`, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ token: tokens.maps }),
  });
  const cookie = login.headers.get('set-cookie')?.split(';')[0] ?? '';
  let reached = true;
  for (const [name, path] of Object.entries(pages)) {
    const times: number[] = [];
    let bytes = 0;
    for (let round = 0; round < rounds; round++) {
      const begun = performance.now();
      const response = await fetch(`${api.origin}/${path}`, { headers: { cookie } });
      bytes = (await response.arrayBuffer()).byteLength;
      times.push(performance.now() - begun);
    }
    const median = times.sort((a, b) => a - b)[rounds / 2] ?? Infinity;
    const kib = bytes / 1024;
    const text = `${name} over ${runs} runs: ${median.toFixed(1)} ms of ${maxMs}, ${kib.toFixed(1)} KiB of ${maxKib}`;
    reached = goal(text, median < maxMs && kib < maxKib) && reached;
  }
  for (const end of teardowns) await end();
  return reached;
}
