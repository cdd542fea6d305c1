import t from 'tap';
import type { PipelineConfig } from '../../../src/core/config/config.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { startTidying, type TidyingOptions } from '../../../src/workers/coordinator/tidying.ts';
import { manualClock } from '../manual-clock.ts';

/** A pipeline with a destination `web`, whose channels expire after a minute. */
function pipeline(id: string): PipelineConfig {
  const destinations = [{ id: 'web', releases: { channels: [{ ttlMs: 60_000 }] } }];
  return { id, destinations } as unknown as PipelineConfig;
}

/** Threads that hold each request until it is released. */
function heldThreads() {
  const begun: string[] = [];
  const held: (() => void)[] = [];
  const threads: TidyingOptions['threads'] = {
    releases: async ({ pipelineId }, signal) => {
      begun.push(pipelineId);
      await new Promise<void>((resolve) => {
        held.push(resolve);
        signal.addEventListener('abort', () => resolve());
      });
      return { kind: 'tidy', paths: [] };
    },
  };
  const release = async (): Promise<void> => {
    held.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { threads, begun, release };
}

t.test('skips rounds that are due while one is running', async (t) => {
  const clock = manualClock();
  const { threads, begun, release } = heldThreads();
  const pipelines = [pipeline('a'), pipeline('b')];
  const tidying = startTidying({ pipelines, threads, clock, log: silentLog });
  await clock.advance(300_000);
  await release();
  await release();
  t.same(begun, ['a', 'b'], 'no round was queued');
  await clock.advance(60_000);
  t.same(begun, ['a', 'b', 'a'], 'the next one comes when it is due');
  await tidying.close();
  await clock.advance(120_000);
  t.same(begun, ['a', 'b', 'a']);
});

t.test('a reload ends the current round, and the next one has the new pipelines', async (t) => {
  const clock = manualClock();
  const { threads, begun, release } = heldThreads();
  const tidying = startTidying({
    pipelines: [pipeline('old'), pipeline('removed')],
    threads,
    clock,
    log: silentLog,
  });
  tidying.update([pipeline('old'), pipeline('new')]);
  t.same(begun, ['old']);
  for (let count = 0; count < 4; count += 1) await release();
  t.same(begun, ['old', 'old', 'new']);
  tidying.update([]);
  await clock.advance(120_000);
  t.same(begun, ['old', 'old', 'new']);
  await tidying.close();
});
