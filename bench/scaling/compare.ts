/** Compares the simulation with real processes and real Redis. */
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { startCluster, timesOf, untilDepth, uploadAll } from './cluster.ts';
import type { Costs } from './costs.ts';
import { simulate } from './model.ts';

/** One cluster size, measured and simulated. */
export interface Compared {
  processes: number;
  shards: number;
  perSecond: { real: number; simulated: number };
  /** Medians in milliseconds. */
  waitedMs: { real: number; simulated: number };
}

const uploads = Number(process.env['BENCH_UPLOADS'] ?? 2000);
const common = { pipelines: 20, concurrency: 2, clients: 32 };

/** 1, 2 and 4 processes that accept uploads and publish, with 1 and 3 Redis servers. */
export async function compareAll(root: string, costs: Costs): Promise<Compared[]> {
  const compared: Compared[] = [];
  for (const shards of [1, 3])
    for (const processes of [1, 2, 4]) {
      const shape = { ...common, processes, shards, uploads, cores: availableParallelism() };
      const real = await observe(path.join(root, `${processes}-${shards}`), shape);
      const simulated = simulate(shape, costs);
      compared.push({
        ...{ processes, shards },
        perSecond: { real: real.perSecond, simulated: simulated.perSecond },
        waitedMs: { real: median(real.waitedMs), simulated: median(simulated.waitedMs) },
      });
    }
  return compared;
}

async function observe(
  root: string,
  {
    processes,
    shards,
    pipelines,
    concurrency,
    clients,
  }: { processes: number; shards: number } & typeof common,
): Promise<{ perSecond: number; waitedMs: number[] }> {
  const cluster = await startCluster({
    ...{ root, pipelines, shards, apis: processes },
    ...{ workers: 'the APIs do', concurrency },
  });
  try {
    // Warms up the compiled code in each process, as the cost measurements do.
    await uploadAll(cluster, (uploads / 2) * processes, clients);
    await untilDepth(cluster, 0);
    const begun = Date.now();
    const taken = await uploadAll(cluster, uploads, clients);
    await untilDepth(cluster, 0);
    const times = await timesOf(cluster, taken);
    const finished = Math.max(...times.map((one) => one.finished));
    return {
      perSecond: (uploads / (finished - begun)) * 1000,
      waitedMs: times.map(({ waitedMs }) => waitedMs),
    };
  } finally {
    await cluster.close();
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}
