import t from 'tap';
import { auditChecks } from '../../../src/workers/coordinator/health-checks.ts';
import { uploadSpaceCheck } from '../../../src/workers/staging/content-limits.ts';
import { cachedCheck, withDiskTimeout } from '../../../src/workers/staging/staging-check.ts';
import { manualClock } from '../manual-clock.ts';

/** A check that ends when the test ends it, and the number of its starts. */
function slowProof(): { prove: () => Promise<void>; begun: () => number; end: (error?: Error) => void } {
  let begun = 0;
  let end: (error?: Error) => void = () => undefined;
  const prove = (): Promise<void> => {
    begun += 1;
    return new Promise((resolve, reject) => {
      end = (error) => (error === undefined ? resolve() : reject(error));
    });
  };
  return { prove, begun: () => begun, end: (error) => end(error) };
}

t.test('during a check, the last result stays valid until it is twice as old', async (t) => {
  const clock = manualClock();
  const { prove, begun, end } = slowProof();
  const proved = cachedCheck(clock, 1_000, prove);
  const first = proved();
  t.equal(proved(), first, 'before the first result, all callers wait for it');
  end();
  await first;
  await clock.advance(999);
  t.equal(proved(), first);
  t.equal(begun(), 1);
  await clock.advance(500);
  t.equal(proved(), first, 'no caller waits for the next one');
  t.equal(proved(), first);
  t.equal(begun(), 2, 'which is running');
  await clock.advance(501);
  const second = proved();
  t.not(second, first, 'now callers wait for it');
  t.equal(begun(), 2);
  end(new Error('the disk is gone'));
  await t.rejects(second, { message: 'the disk is gone' });
  await clock.advance(0);
  t.equal(begun(), 2);
});

t.test('a failure stays valid as long as a success, and is checked again', async (t) => {
  const clock = manualClock();
  const { prove, begun, end } = slowProof();
  const proved = cachedCheck(clock, 1_000, prove);
  const first = proved();
  end(new Error('gone'));
  await t.rejects(first);
  await clock.advance(1_000);
  await t.rejects(proved(), { message: 'gone' });
  t.equal(begun(), 2);
  end();
  await clock.advance(0);
  await proved();
  t.equal(begun(), 2);
});

t.test('a check of a disk that does not answer fails after ten seconds, and is not repeated', async (t) => {
  const clock = manualClock();
  const { prove, begun, end } = slowProof();
  const proved = cachedCheck(clock, 1_000, prove, (checking) => withDiskTimeout(checking, clock));
  const first = proved();
  await clock.advance(9_999);
  await clock.advance(1);
  const failure = { code: 'staging_unavailable', message: /the disk has not answered for 10 s/ };
  await t.rejects(first, failure);
  await t.rejects(proved(), failure, 'later callers do not wait');
  t.equal(begun(), 1);
  end();
  await clock.advance(0);
  const next = proved();
  t.equal(begun(), 2);
  end();
  await next;
});

t.test('a slow check of the audit trail or of shared staging is not about the disk of uploads', async (t) => {
  const clock = manualClock();
  const { prove, end } = slowProof();
  const [check] = auditChecks({ onFull: 'refuse' }, { trail: { check: prove }, clock, admitsActs: true });
  const first = check?.check() ?? Promise.reject(new Error('there is no check'));
  await clock.advance(15_000);
  end();
  await t.resolves(first);
});

t.test('uploads fail after ten seconds if the disk does not answer', async (t) => {
  const clock = manualClock();
  const { prove, end } = slowProof();
  // /proc has no free space, so the files kept for later uploads are removed first.
  const check = uploadSpaceCheck({ directory: '/proc', clock, content: { clear: prove } });
  const failure = { code: 'staging_unavailable', message: /the disk has not answered for 10 s/ };
  const rejected = t.rejects(check(), failure);
  await clock.advance(10_000);
  await rejected;
  end();
});
