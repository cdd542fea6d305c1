import type { Test } from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { generator } from '../../../support/sampling.ts';
import { feedAll } from '../../feed-samples.ts';
import { drawFrom } from '../../oracle-world.ts';
import type { Driver } from '../../suite.ts';
import { startWeather } from '../weather-harness.ts';
import { compare } from './leaves.ts';
import { type Question, questions } from './questions.ts';
import { inSeconds, rawRows } from './rows.ts';
import { begin, fillWorld, minute } from './world.ts';

const staleAfterMs = 180 * minute;

/**
 * Sends random requests over HTTP and recomputes every value of each answer from the raw rows: those of the
 * samples, and those of a randomly generated world. The reader and this oracle share only HTTP and the rows.
 */
export async function everyLeafSuite(t: Test, driver: Driver, reads: number): Promise<void> {
  const draw = drawFrom(generator('weather leaves'));
  const target = await driver.openTarget();
  await feedAll(target);
  await fillWorld(target, draw);
  const tables = await rawRows(target);
  await target.close();

  let now = begin;
  const reader = await driver.openReader({
    ...systemClock,
    now: () => new Date(now),
    monotonic: () => now,
  });
  const url = await startWeather(t, {
    reader,
    clock: { ...systemClock, now: () => new Date(now) },
    staleAfterMs,
  });
  const seen = new Map<string, { answers: number; leaves: number; withData: number }>();
  let leaves = 0;
  for (let read = 0; read < reads; read += 1) {
    // Half of them early, when some rows are still in the future.
    now = begin + draw.whole(0, draw.oneOf([50, 420]) * minute);
    const question = (questions[read % questions.length] as (typeof questions)[number])({
      tables,
      draw,
      now,
    });
    const asked = `${question.path}?${new URLSearchParams(question.parameters).toString()}`;
    const response = await fetch(url + asked);
    const body = await response.text();
    const place = `read ${read}: ${asked} at ${new Date(now).toISOString()}`;
    if (response.status !== 200) {
      t.fail(`${place} answers ${response.status}: ${body}`);
      continue;
    }
    const found = compare(JSON.parse(body), envelope(question.expected, now));
    if (found.differences.length > 0) t.same(found.differences.slice(0, 5), [], place);
    leaves += found.leaves;
    const endpoint = question.path.replace(/^\/alerts\/.*/, '/alerts/{id}');
    const before = seen.get(endpoint) ?? { answers: 0, leaves: 0, withData: 0 };
    seen.set(endpoint, {
      answers: before.answers + 1,
      leaves: before.leaves + found.leaves,
      withData: before.withData + Number(question.expected !== null),
    });
  }
  await reader.close();
  t.comment(`${leaves} leaves of ${reads} answers`);
  t.ok(leaves > reads, `${leaves} leaves of ${reads} answers`);
  if (reads < 200) return;
  t.equal(seen.size, 11, [...seen.keys()].join(' '));
  for (const [endpoint, { answers, withData }] of seen)
    t.ok(withData > answers / 10, `${endpoint}: ${withData} of ${answers} with data`);
}

/** The whole document: the record with its metadata. */
function envelope(expected: Question['expected'], now: number): object {
  if (expected === null) return { data: null };
  const { data, asOf } = expected;
  const isStale = asOf !== null && now >= asOf + staleAfterMs;
  const meta = {
    ...(isStale ? { stale: true, asOf: inSeconds(asOf) } : {}),
    ...('resolved' in expected ? { resolved: expected.resolved } : {}),
    ...('meta' in expected ? expected.meta : {}),
  };
  return Object.keys(meta).length === 0 ? { data } : { data, meta };
}
