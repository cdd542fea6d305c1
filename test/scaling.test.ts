import t from 'tap';
import type { Costs } from '../bench/scaling/costs.ts';
import { Places, type Process, Processors, Simulation, Thread } from '../bench/scaling/engine.ts';
import { simulate } from '../bench/scaling/model.ts';
import { loads, needsOf } from '../bench/scaling/plan.ts';
import { needsTable } from '../bench/scaling/tables.ts';
import type { Usage } from '../bench/scaling/usage.ts';
import { generator } from './support/sampling.ts';

/** Customers who come at random and take random times: the mean of what each spends there. */
function meanTime(
  customers: number,
  load: number,
  serve: (simulation: Simulation) => (ms: number) => Process,
) {
  const random = generator(`customers ${load}`);
  const exponential = (mean: number): number => -mean * Math.log(1 - random());
  const simulation = new Simulation();
  const service = serve(simulation);
  let total = 0;
  function* customer(): Process {
    const begun = simulation.now;
    yield* service(exponential(1));
    total += simulation.now - begun;
  }
  function* arrivals(): Process {
    for (let index = 0; index < customers; index += 1) {
      yield simulation.sleep(exponential(1 / load));
      simulation.start(customer());
    }
  }
  simulation.start(arrivals());
  simulation.run();
  return total / customers;
}

/** L. Kleinrock, Queueing Systems I: what theory says of the means, and the simulation has to find. */
t.test('queues behave as theory has it', async (t) => {
  const customers = 100_000;
  const about = (found: number, expected: number, what: string): void =>
    void t.ok(Math.abs(found / expected - 1) < 0.05, `${what}: ${found} is about ${expected}`);
  for (const load of [0.3, 0.7]) {
    const one = meanTime(customers, load, (simulation) => {
      const thread = new Thread(new Processors(simulation, 4));
      return (ms) => thread.work(ms);
    });
    about(one, 1 / (1 - load), `M/M/1 at ${load}`);
    const shared = meanTime(customers, load, (simulation) => {
      const processors = new Processors(simulation, 1);
      return function* (ms) {
        yield processors.work(ms);
      };
    });
    about(shared, 1 / (1 - load), `M/M/1 with processor sharing at ${load}`);
  }
  // Erlang's C for two servers: 1 / (1 - ρ²), in units of a service, with ρ = λ / 2.
  const two = meanTime(customers, 1.2, (simulation) => {
    const places = new Places(2);
    return function* (ms) {
      yield places.take();
      yield simulation.sleep(ms);
      places.giveBack();
    };
  });
  about(two, 1 / (1 - 0.6 ** 2), 'M/M/2');
});

t.test('two cores do no more than two things at once, and each no faster than alone', async (t) => {
  const simulation = new Simulation();
  const processors = new Processors(simulation, 2);
  const ended: [string, number][] = [];
  const work = function* (name: string, ms: number): Process {
    yield processors.work(ms);
    ended.push([name, simulation.now]);
  };
  for (const [name, ms] of Object.entries({ a: 10, b: 20, c: 20 })) simulation.start(work(name, ms));
  simulation.run();
  t.equal(processors.busyMs, 50);
  t.same(
    ended.map(([name, at]) => [name, Math.round(at)]),
    [
      ['a', 15],
      ['b', 25],
      ['c', 25],
    ],
  );
});

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
const shape = {
  cores: 100,
  processes: 1,
  shards: 1,
  pipelines: 50,
  concurrency: 50,
  clients: 40,
  uploads: 2000,
};

t.test('finds the same limit of an installation as the simulation', async (t) => {
  const rate = (given: Partial<typeof shape>, changed: Partial<Costs> = {}): number =>
    Math.round(simulate({ ...shape, ...given }, { ...costs, ...changed }).perSecond / 10) * 10;
  t.equal(rate({}), 330, 'the main thread: 3 ms each');
  t.equal(rate({ processes: 2 }), 660, 'two of them');
  t.equal(rate({ cores: 1 }), 90, 'one core: 11 ms each');
  t.equal(rate({ pipelines: 1, processes: 4 }), 110, 'one pipeline: 9 ms each, one after another');
  t.ok([90, 100, 110].includes(rate({ concurrency: 1 })), 'one run at a time, during uploads');
  const waits = { ...costs, turnaroundMs: 11 };
  t.equal(rate({ pipelines: 1, processes: 4 }, waits), 50, 'and 11 ms until the next begins');
  t.equal(rate({ cores: 1 }, { kernelMs: 9 }), 50, 'one core, with 9 ms of the kernel');
  const redis = { run: { ...nothing, redisMs: 10 } };
  t.equal(rate({}, redis), 100, 'one Redis');
  t.equal(rate({ shards: 2 }, redis), 200, 'two');
  const noisy = { otherWorker: { ...nothing, redisMs: 5 } };
  t.ok(rate({ processes: 20 }, noisy) < 20, 'workers that look for what another has');
});

t.test('the plan counts what a load takes', async (t) => {
  const needs = needsOf({ name: 'any', runsPerSecond: 1000, dashboards: 6000 }, costs);
  t.match(needs, { apis: 4, workers: 4, shards: 2, pipelines: 15, weatherReaders: 1, lookingShare: 0 });
  t.equal(needs.s3RequestsPerSecond, 20_000);
  const looking = { ...costs, idle: { ...costs.idle, pipeline: { ...nothing, redisMs: 10 } } };
  const more = needsOf({ name: 'any', runsPerSecond: 1000, dashboards: 0 }, looking);
  t.equal(more.shards, 3);
  t.ok(Math.abs(more.lookingShare - 0.6 / 1.6) < 0.01, 'four workers look at 15 pipelines for 10 ms');
  const asking = { ...costs, idle: { ...costs.idle, process: { ...nothing, redisMs: 200 } } };
  const tooMany = needsOf({ name: 'any', runsPerSecond: 1000, dashboards: 0 }, asking);
  t.match(tooMany, { shards: Infinity, lookingShare: 1 }, 'four workers ask each Redis for 800 ms');
  t.match(needsTable(asking), /\| Redis \|.* not possible \|/);
  let before = 0;
  for (const load of loads.slice(0, 4)) {
    const { hosts } = needsOf(load, costs);
    t.ok(hosts > before, load.name);
    before = hosts;
  }
});
