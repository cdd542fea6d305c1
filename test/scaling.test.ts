import t from 'tap';
import type { Costs } from '../bench/scaling/costs.ts';
import { loads, needsOf } from '../bench/scaling/plan.ts';
import { needsTable } from '../bench/scaling/tables.ts';
import type { Usage } from '../bench/scaling/usage.ts';

const nothing: Usage = { mainMs: 0, otherMs: 0, redisMs: 0, redisCommands: 0, redisBytes: 0 };
const costs: Costs = {
  upload: { ...nothing, mainMs: 2 },
  run: { ...nothing, mainMs: 1, otherMs: 7, redisMs: 1 },
  kernelMs: 0,
  turnaroundMs: 0,
  otherWorker: nothing,
  poll: nothing,
  event: { ...nothing, mainMs: 0.05 },
  subscriberKiB: 10,
  idle: { process: nothing, pipeline: nothing },
  weather: { kept: { ms: 0.1, databaseMs: 0 }, read: { ms: 0.2, databaseMs: 0.1 } },
  s3Requests: { created: 20, unchanged: 2 },
  bytes: { upload: 4096, poll: 1024, event: 512, weather: 1024 },
  clientMs: 0,
  unhurried: { acceptedMs: [2], ranMs: [9] },
};
t.test('the plan adds up the costs of a load', async (t) => {
  const needs = needsOf({ name: 'any', runsPerSecond: 1000, dashboards: 6000 }, costs);
  t.match(needs, { apis: 4, workers: 4, pipelines: 15, weatherReaders: 1, lookingShare: 0 });
  t.equal(needs.redis.toFixed(2), '1.67', 'one Redis works 1 s in each second, and 0.6 s is its limit');
  t.equal(needs.firstLimit, 'Redis');
  t.equal(needs.s3RequestsPerSecond, 20_000);
  const looking = { ...costs, idle: { ...costs.idle, pipeline: { ...nothing, redisMs: 10 } } };
  const more = needsOf({ name: 'any', runsPerSecond: 1000, dashboards: 0 }, looking);
  t.ok(Math.abs(more.lookingShare - 0.6 / 1.6) < 0.01, 'four workers poll 15 pipelines for 10 ms');
  t.match(needsTable(costs), /\| one Redis is busy \| 10 % \| 100 % \|/);
  let before = 0;
  for (const load of loads.slice(0, 4)) {
    const { hosts } = needsOf(load, costs);
    t.ok(hosts > before, load.name);
    before = hosts;
  }
});
