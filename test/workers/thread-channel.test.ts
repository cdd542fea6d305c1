import { MessageChannel, receiveMessageOnPort, type MessagePort } from 'node:worker_threads';
import t from 'tap';
import { WaybillError } from '../../src/core/errors.ts';
import { answerTask, coalesceBytes, type FromThread } from '../../src/workers/thread-channel.ts';
import type { JobProgress } from '../../src/workers/job.ts';
import { runResult } from '../contract/queue.ts';

const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: '.' };

t.test('bytes of one destination are added up, in order with everything else', async (t) => {
  const emitted: JobProgress[] = [];
  const { onProgress, flush } = coalesceBytes((progress) => emitted.push(progress), 100);
  const bytes = (destinationId: string, count: number): JobProgress => ({
    type: 'bytes',
    destinationId,
    count,
  });
  onProgress(bytes('a', 60));
  onProgress(bytes('a', 60));
  onProgress(bytes('a', 10));
  onProgress(bytes('b', 5));
  onProgress({ type: 'output', destinationId: 'b', path: 'x' });
  onProgress(bytes('b', 7));
  t.same(emitted, [
    bytes('a', 120),
    bytes('a', 10),
    bytes('b', 5),
    { type: 'output', destinationId: 'b', path: 'x' },
  ]);
  flush();
  flush();
  t.same(emitted.at(-1), bytes('b', 7));
  t.equal(emitted.length, 5);
});

t.test(
  'a failure is answered as data, with its code and hint, and told in the log with its cause',
  async (t) => {
    const { port1, port2 } = new MessageChannel();
    t.teardown(() => port1.close());
    const outcome = await answerTask({ job, port: port2 }, false, async () => {
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
  },
);

t.test('an abort message reaches the work as a signal', async (t) => {
  const { port1, port2 } = new MessageChannel();
  t.teardown(() => port1.close());
  port1.postMessage({ type: 'abort', reason: 'the daemon stops' });
  const outcome = await answerTask({ job, port: port2 }, false, ({ runId }, { signal }) => {
    t.equal(runId, 'maps.1');
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  });
  t.match(outcome, { ok: false, error: { code: 'aborted', message: 'the daemon stops' } });
});

t.test('log fields that cannot be cloned still arrive; debug lines only where they are read', async (t) => {
  for (const verbose of [false, true]) {
    const { port1, port2 } = new MessageChannel();
    t.teardown(() => port1.close());
    await answerTask({ job, port: port2 }, verbose, async (_job, { log }) => {
      log.debug({}, 'detail');
      log.info({ run: () => 1, storage: 'local' }, 'hello');
      return runResult('ok');
    });
    const messages = drain(port1).map((message) => (message.type === 'log' ? message.message : ''));
    t.same(messages, verbose ? ['detail', 'hello'] : ['hello']);
  }
});

function drain(port: MessagePort): FromThread[] {
  const messages: FromThread[] = [];
  for (let next = receiveMessageOnPort(port); next !== undefined; next = receiveMessageOnPort(port)) {
    messages.push(next.message as FromThread);
  }
  return messages;
}
