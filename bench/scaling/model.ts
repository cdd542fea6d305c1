/** The simulation's model of waybill: where an upload and its run spend their time. */
import { generator } from '../../test/support/sampling.ts';
import type { Costs } from './costs.ts';
import { Places, type Process, Processors, Simulation, Thread } from './engine.ts';
import type { Usage } from './usage.ts';

/** Processes that accept uploads and publish, on one machine with all Redis servers and clients. */
export interface Shape {
  cores: number;
  processes: number;
  shards: number;
  pipelines: number;
  /** Concurrent runs in each process. */
  concurrency: number;
  /** Clients that upload again as soon as they have their 202. */
  clients: number;
  uploads: number;
}

export interface Predicted {
  /** From the start of the first upload to the end of the last run. */
  perSecond: number;
  acceptedMs: number[];
  /** From the start of an upload to the start of its run. */
  waitedMs: number[];
}

interface Host {
  main: Thread;
  /** Concurrent runs of the host. */
  free: number;
}

/**
 * An upload uses its client's thread, the main thread and other threads of one process, then Redis, and then
 * the remaining time of an unloaded upload: disk and network. Its run waits for its pipeline, which runs one
 * at a time, and for a slot in any process. It then uses the same resources of that process and the kernel
 * before it frees the slot. Every other process with a free slot is notified and checks for a job. The
 * variance of the costs is taken from the unloaded measurements.
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

  /** The cost of one second, independent of load. */
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

/** The variance of one cost, and the part of an unloaded operation that is not processor time. */
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
