/** waybill as the simulation has it: what happens to an upload and its run, and where. */
import { generator } from '../../test/support/sampling.ts';
import type { Costs } from './costs.ts';
import { Places, type Process, Processors, Simulation, Thread } from './engine.ts';
import type { Usage } from './usage.ts';

/** Processes that take uploads and publish, on one machine with all Redis and the clients. */
export interface Shape {
  cores: number;
  processes: number;
  shards: number;
  pipelines: number;
  /** Runs at once in each process. */
  concurrency: number;
  /** Each uploads again as soon as it has its 202. */
  clients: number;
  uploads: number;
}

export interface Predicted {
  /** Published, from the first upload's beginning to the last run's end. */
  perSecond: number;
  acceptedMs: number[];
  /** From the beginning of an upload to that of its run. */
  waitedMs: number[];
}

interface Host {
  main: Thread;
  /** Its runs at once. */
  free: number;
}

/**
 * An upload takes its client's thread, the main thread of one process and further threads for what it
 * costs there, then Redis, and then the time that is left of an unhurried one: disk and network. Its run
 * waits for its pipeline, which has one at a time, and for a place in any process, and takes the same of
 * that one, and what the kernel does for both, before the next one has its place. Every other process with
 * a place left hears of it and looks. How much the costs of one vary is how its time varied when nothing
 * else was to do.
 */
export function simulate(shape: Shape, costs: Costs, seed = 'simulation'): Predicted {
  const random = generator(seed);
  const simulation = new Simulation();
  const processors = new Processors(simulation, shape.cores);
  const client = new Thread(processors);
  const shards = Array.from({ length: shape.shards }, () => new Thread(processors));
  const hosts = Array.from({ length: shape.processes }, (): Host => ({
    main: new Thread(processors),
    free: shape.concurrency,
  }));
  const pipelines = Array.from({ length: shape.pipelines }, () => new Places(1));
  const waiting: ((host: Host) => void)[] = [];
  const found: Predicted = { perSecond: 0, acceptedMs: [], waitedMs: [] };
  let [next, ended] = [0, 0];

  const draw = variation(random);
  const acceptance = draw(costs.unhurried.acceptedMs, costs.upload, -costs.clientMs);
  const publication = draw(costs.unhurried.ranMs, costs.run, costs.turnaroundMs);

  function* useOf(host: Host, shard: Thread, { mainMs, otherMs, redisMs }: Usage, factor = 1): Process {
    yield* host.main.work(mainMs * factor);
    yield processors.work(otherMs * factor);
    yield* shard.work(redisMs * factor);
  }

  function* uploader(): Process {
    while (next < shape.uploads) {
      const index = (next += 1);
      const begun = simulation.now;
      const { factor, restMs } = acceptance();
      yield* client.work(costs.clientMs);
      const pipeline = index % shape.pipelines;
      const shard = shards[pipeline % shape.shards]!;
      yield* useOf(hosts[index % shape.processes]!, shard, costs.upload, factor);
      yield simulation.sleep(restMs);
      found.acceptedMs.push(simulation.now - begun);
      simulation.start(run(pipelines[pipeline]!, shard, begun));
    }
  }

  function* run(pipeline: Places, shard: Thread, begun: number): Process {
    yield pipeline.take();
    let taken: Host | undefined;
    yield (resume) =>
      takePlace((host) => {
        taken = host;
        resume();
      });
    const host = taken!;
    found.waitedMs.push(simulation.now - begun);
    for (const other of hosts)
      if (other !== host && other.free > 0) simulation.start(useOf(other, shard, costs.otherWorker));
    const { factor, restMs } = publication();
    yield* useOf(host, shard, costs.run, factor);
    yield processors.work(costs.kernelMs);
    yield simulation.sleep(restMs);
    pipeline.giveBack();
    giveBackPlace(host);
    ended += 1;
  }

  const takePlace = (use: (host: Host) => void): void => {
    const most = Math.max(...hosts.map(({ free }) => free));
    const free = hosts.filter((host) => host.free === most);
    if (most === 0) {
      waiting.push(use);
      return;
    }
    const host = free[Math.floor(random() * free.length)]!;
    host.free -= 1;
    use(host);
  };
  const giveBackPlace = (host: Host): void => {
    const use = waiting.shift();
    if (use === undefined) host.free += 1;
    else use(host);
  };

  /** What it does once a second, whatever comes. */
  function* housekeeping(host: Host, shard: Thread): Process {
    for (;;) {
      yield simulation.sleep(1000);
      yield* useOf(host, shard, costs.idle.process);
      yield* useOf(host, shard, costs.idle.pipeline, shape.pipelines / shape.shards);
    }
  }

  for (const host of hosts) for (const shard of shards) simulation.start(housekeeping(host, shard));
  for (let client = 0; client < shape.clients; client += 1) simulation.start(uploader());
  simulation.run(() => ended === shape.uploads);
  found.perSecond = (shape.uploads / simulation.now) * 1000;
  return found;
}

/** How what one costs varies, and the time of an unhurried one that is no processor's. */
function variation(random: () => number) {
  return (unhurried: readonly number[], { mainMs, otherMs, redisMs }: Usage, moreMs: number) => {
    const mean = unhurried.reduce((sum, ms) => sum + ms, 0) / unhurried.length;
    const restMs = Math.max(0, mean - mainMs - otherMs - redisMs + moreMs);
    return (): { factor: number; restMs: number } => {
      const factor = unhurried[Math.floor(random() * unhurried.length)]! / mean;
      return { factor, restMs: restMs * factor };
    };
  };
}
