import { MessageChannel, type MessagePort, receiveMessageOnPort } from 'node:worker_threads';
import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import type { JobProgress } from '../../../src/workers/queue/job.ts';
import {
  answerTask,
  batchProgress,
  isThreadMessage,
  type ThreadMessage,
} from '../../../src/workers/threads/thread-channel.ts';
import { runResult } from '../../contract/queue.ts';
import { manualClock } from '../manual-clock.ts';

const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: '.' };

const bytes = (destinationId: string, count: number): JobProgress => ({
  type: 'bytes',
  destinationId,
  count,
});
const output = (path: string): JobProgress => ({ type: 'output', destinationId: 'b', path });

t.test(
  'progress is sent in batches, in order, with consecutive bytes of one destination added up',
  async (t) => {
    const emitted: JobProgress[][] = [];
    const { onProgress, flush } = batchProgress(systemClock, (progress) => emitted.push(progress), 60_000);
    onProgress(bytes('a', 60));
    onProgress(bytes('a', 10));
    onProgress(bytes('b', 5));
    onProgress(output('x'));
    onProgress(bytes('b', 7));
    t.same(emitted, [], 'nothing yet');
    flush();
    flush();
    t.same(emitted, [[bytes('a', 70), bytes('b', 5), output('x'), bytes('b', 7)]]);
  },
);

t.test('a batch is sent after a delay, even if no timer can run', async (t) => {
  const emitted: JobProgress[][] = [];
  const clock = manualClock();
  let blockedMs = 0;
  const { onProgress, flush } = batchProgress(
    { ...clock, monotonic: () => clock.monotonic() + blockedMs },
    (progress) => emitted.push(progress),
    5,
  );
  onProgress(output('x'));
  await clock.advance(4);
  t.same(emitted, []);
  await clock.advance(1);
  t.same(emitted, [[output('x')]]);
  onProgress(output('y'));
  blockedMs = 5;
  onProgress(output('z'));
  t.same(emitted.slice(1), [[output('y'), output('z')]]);
  flush();
  t.equal(emitted.length, 2, 'nothing is reported twice');
});

t.test('reports a finished destination immediately, after all earlier messages', async (t) => {
  const emitted: JobProgress[][] = [];
  const { onProgress } = batchProgress(systemClock, (progress) => emitted.push(progress), 60_000);
  const [result] = runResult('ok').run.pipelines[0]?.destinations[0]?.actions ?? [];
  if (result === undefined || result.bundle === null) throw new Error('the contract has no result');
  const done: JobProgress = { type: 'done', destinationId: 'b', result };
  onProgress(bytes('b', 7));
  onProgress(done);
  t.same(emitted, [[bytes('b', 7), done]]);
});

t.test('distinguishes messages from other data', async (t) => {
  for (const message of [
    { type: 'alive' },
    { type: 'progress', progress: [bytes('a', 1)] },
    { type: 'occurrence', occurrence: {} },
    { type: 'log', level: 'info', fields: {}, message: 'x' },
  ])
    t.ok(isThreadMessage(message), JSON.stringify(message));
  for (const message of [
    null,
    'alive',
    {},
    { type: 'toString' },
    { type: 'progress' },
    { type: 'progress', progress: bytes('a', 1) },
    { type: 'progress', progress: [null] },
    { type: 'progress', progress: [{ type: 'constructor' }] },
    { type: 'occurrence', occurrence: null },
    { type: 'log', fields: 'x' },
  ])
    t.notOk(isThreadMessage(message), JSON.stringify(message));
});

t.test('a failure is returned as data, with its code and hint, and logged with its cause', async (t) => {
  const { port1, port2 } = new MessageChannel();
  t.teardown(() => port1.close());
  const outcome = await answerTask({ job, port: port2, verbose: false }, { clock: systemClock }, async () => {
    throw new WaybillError('secrets_invalid', 'KEY is missing', {
      hint: 'set KEY',
      cause: new Error('deep'),
    });
  });
  t.match(outcome, {
    ok: false,
    error: { code: 'secrets_invalid', message: 'KEY is missing', hint: 'set KEY' },
  });
  t.match(drain(port1), [
    {
      type: 'log',
      level: 'error',
      fields: { err: { code: 'secrets_invalid', cause: { message: 'deep' } } },
    },
  ]);
});

t.test('an abort message becomes a signal with its code', async (t) => {
  for (const code of ['aborted', 'cancelled']) {
    const { port1, port2 } = new MessageChannel();
    t.teardown(() => port1.close());
    port1.postMessage({ type: 'abort', code, reason: 'the daemon stops' });
    const outcome = await answerTask(
      { job, port: port2, verbose: false },
      { clock: systemClock },
      ({ runId }, { signal }) => {
        t.equal(runId, 'maps.1');
        return new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(signal.reason as Error));
        });
      },
    );
    t.match(outcome, { ok: false, error: { code, message: 'the daemon stops' } });
  }
});

t.test('log fields that cannot be cloned are still sent; debug lines only if they are printed', async (t) => {
  for (const verbose of [false, true]) {
    const { port1, port2 } = new MessageChannel();
    t.teardown(() => port1.close());
    await answerTask({ job, port: port2, verbose }, { clock: systemClock }, async (_job, { log }) => {
      log.debug({}, 'detail');
      log.info({ run: () => 1, storage: 'local' }, 'hello');
      return runResult('ok');
    });
    const messages = drain(port1).map((message) => (message.type === 'log' ? message.message : ''));
    t.same(messages, verbose ? ['detail', 'hello'] : ['hello']);
  }
});

function drain(port: MessagePort): ThreadMessage[] {
  const messages: ThreadMessage[] = [];
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    messages.push(next.message as ThreadMessage);
  }
  return messages;
}
