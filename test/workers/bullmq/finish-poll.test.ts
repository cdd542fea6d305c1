import t from 'tap';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { FinishPoll } from '../../../src/workers/bullmq/bullmq-feed.ts';

t.test('polls each run at most once at a time, for any number of waits', async (t) => {
  const never = new AbortController().signal;
  const answers: string[][] = [[], ['maps.2'], ['maps.1']];
  const asked: string[][] = [];
  const poll = new FinishPoll({ ...systemClock, sleep: async () => undefined }, async (runIds) => {
    asked.push([...runIds]);
    return answers.shift() ?? [];
  });
  const waits = Array.from({ length: 50 }, () => poll.wait('maps.1', never));
  const other = Array.from({ length: 50 }, () => poll.wait('maps.2', never));
  await Promise.all([...waits, ...other]);
  t.same(asked, [['maps.1'], ['maps.1', 'maps.2'], ['maps.1']]);
  await poll.close();
});
