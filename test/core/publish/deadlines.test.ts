import t from 'tap';
import { withinRunTimeout } from '../../../src/core/publish/deadlines.ts';
import type { ActionResult, Progress } from '../../../src/core/publish/results/result.ts';
import { manualClock } from '../../workers/manual-clock.ts';

/** The message of a run that reports this progress and then stalls. */
async function stalledAfter(...progress: Progress[]): Promise<string> {
  const clock = manualClock();
  const seen: Progress[] = [];
  const run = withinRunTimeout(
    { clock },
    { runTimeoutMs: 7_200_000 },
    (one) => seen.push(one),
    async (signal, onProgress) => {
      progress.forEach(onProgress);
      await clock.sleep(1e12, signal);
    },
  );
  const failure = run.then(
    () => 'it ended',
    (error: unknown) => (error instanceof Error ? error.message : ''),
  );
  await clock.advance(7_200_000);
  t.same(seen, progress, 'the progress is passed on');
  return failure;
}

const planned = (destinationId: string): Progress => ({
  ...{ type: 'planned', destinationId, destinationPath: 'a', action: 'publish_new', outputs: 3, bytes: 9 },
});
const output = (destinationId: string): Progress => ({ type: 'output', destinationId, path: 'a/b' });
const done = (destinationId: string): Progress => ({
  ...{ type: 'done', destinationId, result: {} as ActionResult },
});

t.test('a run that reaches run_timeout names its current step', async (t) => {
  const begin = 'the run did not end within 2h (run_timeout): it was ';
  t.equal(await stalledAfter(), `${begin}reading the bundle or comparing a destination`);
  t.equal(
    await stalledAfter(planned('web'), planned('mirror'), output('web'), done('mirror')),
    `${begin}publishing to "web" (1 of 3 outputs)`,
  );
  t.equal(
    await stalledAfter(planned('web'), planned('mirror'), output('mirror')),
    `${begin}publishing to "web" (0 of 3 outputs) and publishing to "mirror" (1 of 3 outputs)`,
  );
});

t.test('a run that ends in time leaves no timer, and stops at the signal of the context', async (t) => {
  const clock = manualClock();
  const stop = new AbortController();
  const context = { clock, signal: stop.signal };
  const limits = { runTimeoutMs: 1_000 };
  t.equal(
    await withinRunTimeout(
      context,
      limits,
      () => undefined,
      async () => 7,
    ),
    7,
  );
  const run = withinRunTimeout(
    context,
    limits,
    () => undefined,
    (signal) => clock.sleep(1e12, signal),
  );
  stop.abort(new Error('stopped'));
  await t.rejects(run, { message: 'stopped' });
});
