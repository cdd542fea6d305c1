import t from 'tap';
import { RateLimiter } from '../../../src/core/lib/rate-limiter.ts';
import { manualClock } from '../../workers/manual-clock.ts';

const rate = 100_000;

async function* chunks(...sizes: number[]): AsyncGenerator<Uint8Array> {
  for (const size of sizes) yield new Uint8Array(size);
}

/** Reads a paced stream to its end, and records the size of each piece. */
async function drain(stream: AsyncIterable<Uint8Array>, into: number[]): Promise<void> {
  for await (const piece of stream) into.push(piece.byteLength);
}

const sum = (sizes: readonly number[]): number => sizes.reduce((all, size) => all + size, 0);

t.test('limits bytes to the rate, in pieces of a tenth of a second', async (t) => {
  const clock = manualClock();
  const passed: number[] = [];
  const done = drain(new RateLimiter(clock, rate).pace(chunks(25_000)), passed);
  await clock.advance(99);
  t.same(passed, [], 'the bucket is empty initially');
  await clock.advance(1);
  t.same(passed, [10_000]);
  await clock.advance(149);
  t.same(passed, [10_000, 10_000]);
  await clock.advance(1);
  await done;
  t.same(passed, [10_000, 10_000, 5_000]);
});

t.test('concurrent transfers share the rate, and the oldest one is served first', async (t) => {
  const clock = manualClock();
  const limiter = new RateLimiter(clock, rate);
  const [first, second]: [number[], number[]] = [[], []];
  const done = [limiter.pace(chunks(30_000)), limiter.pace(chunks(30_000))].map((stream, index) =>
    drain(stream, index === 0 ? first : second),
  );
  await clock.advance(300);
  t.same([sum(first), sum(second)], [30_000, 0]);
  await clock.advance(300);
  t.same([sum(first), sum(second)], [30_000, 30_000]);
  await Promise.all(done);
});

t.test('a transfer that does not take its bytes does not block the others', async (t) => {
  const clock = manualClock();
  const limiter = new RateLimiter(clock, rate);
  const idle = limiter.pace(chunks(30_000));
  const first = idle.next();
  await clock.advance(100);
  t.match(await first, { value: { byteLength: 10_000 } });
  const passed: number[] = [];
  const done = drain(limiter.pace(chunks(20_000)), passed);
  await clock.advance(200);
  await done;
  t.equal(sum(passed), 20_000);
});

t.test('an abort ends the wait immediately, and its bytes are not counted', async (t) => {
  const clock = manualClock();
  const limiter = new RateLimiter(clock, rate);
  const abort = new AbortController();
  const aborted = drain(limiter.pace(chunks(1_000_000), abort.signal), []);
  const passed: number[] = [];
  const other = drain(limiter.pace(chunks(10_000)), passed);
  await clock.advance(50);
  const reason = new Error('stop');
  abort.abort(reason);
  await t.rejects(aborted, reason);
  await clock.advance(50);
  await other;
  t.same(passed, [10_000]);
  await t.rejects(drain(limiter.pace(chunks(1), abort.signal), []), reason, 'an aborted signal');
});

t.test('time without transfers counts for a tenth of a second only', async (t) => {
  const clock = manualClock();
  const limiter = new RateLimiter(clock, rate);
  await clock.advance(60_000);
  const passed: number[] = [];
  const done = drain(limiter.pace(chunks(30_000)), passed);
  await clock.advance(0);
  t.equal(sum(passed), 10_000);
  await clock.advance(200);
  await done;
  t.equal(sum(passed), 30_000);
});

t.test('a timer that fires late costs no throughput', async (t) => {
  const clock = manualClock();
  const late = { ...clock, timeout: (ms: number, call: () => void) => clock.timeout(ms + 500, call) };
  const passed: number[] = [];
  const done = drain(new RateLimiter(late, rate).pace(chunks(200_000)), passed);
  await clock.advance(2_600);
  await done;
  t.equal(sum(passed), 200_000, '2 s of bytes are delayed by at most one late timer');
});

t.test('an error of the chunks is thrown', async (t) => {
  async function* failing(): AsyncGenerator<Uint8Array> {
    throw new Error('unreadable');
  }
  const limiter = new RateLimiter(manualClock(), rate);
  await t.rejects(drain(limiter.pace(failing()), []), { message: 'unreadable' });
});
