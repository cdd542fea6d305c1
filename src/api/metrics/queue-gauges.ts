import { Gauge, type Registry } from 'prom-client';
import type { KeptBundles, PipelineSteering, RunReader } from '../../workers/queue/job-queue.ts';

export type ObservedQueue = Pick<RunReader, 'depth' | 'kept' | 'overview' | 'waitingSince'> &
  Pick<PipelineSteering, 'pauses'>;

/**
 * Adds gauges that ask the queue whenever the metrics are read. A queue that cannot be reached has none of
 * them; all other metrics are still reported.
 */
export function observeQueue(
  registry: Registry,
  pipelines: () => Iterable<string>,
  queue: ObservedQueue,
  driver: string,
): void {
  const registers = [registry];
  new Gauge({
    name: 'waybill_queue_info',
    help: '1, with the driver of the queue: memory, embedded or bullmq.',
    labelNames: ['driver'],
    registers,
  }).set({ driver }, 1);
  new Gauge({
    name: 'waybill_queue_depth',
    help: 'Uploads being received (reserved), runs that wait (queued) and runs that run (running).',
    labelNames: ['state'],
    registers,
    async collect() {
      this.reset();
      const depth = await queue.depth().catch(() => null);
      const states: Record<string, number> = depth === null ? {} : { ...depth };
      for (const [state, count] of Object.entries(states)) this.set({ state }, count);
    },
  });
  new Gauge({
    name: 'waybill_queue_oldest_seconds',
    help: 'How long the run waits that waits longest; 0 if none of the pipeline waits.',
    labelNames: ['pipeline'],
    registers,
    async collect() {
      this.reset();
      const pipelineIds = [...pipelines()];
      const waiting = await queue.waitingSince(pipelineIds).catch(() => null);
      const now = Date.now();
      for (const [index, pipeline] of pipelineIds.entries()) {
        const since = waiting?.[index];
        const age = typeof since === 'string' ? (now - Date.parse(since)) / 1000 : 0;
        if (since !== undefined) this.set({ pipeline }, Math.max(age, 0));
      }
    },
  });
  new Gauge({
    name: 'waybill_runs_retrying',
    help: 'Runs that failed for a passing cause and wait for their next try.',
    labelNames: ['pipeline'],
    registers,
    async collect() {
      this.reset();
      const pipelineIds = [...pipelines()];
      const overviews = await queue.overview(pipelineIds).catch(() => []);
      for (const [index, { retrying, isAway }] of overviews.entries())
        if (isAway !== true) this.set({ pipeline: pipelineIds[index] ?? '' }, retrying);
    },
  });
  new Gauge({
    name: 'waybill_pipeline_paused',
    help: '1 if no run of the pipeline begins, because it is paused, else 0.',
    labelNames: ['pipeline'],
    registers,
    async collect() {
      this.reset();
      const pauses = await queue.pauses().catch(() => null);
      if (pauses !== null)
        for (const pipeline of pipelines()) this.set({ pipeline }, pauses.has(pipeline) ? 1 : 0);
    },
  });
  observeKept(registry, queue);
}

function observeKept(registry: Registry, queue: Pick<RunReader, 'kept'>): void {
  const registers = [registry];
  const gauge = (name: string, help: string, member: keyof KeptBundles): Gauge =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const kept = await queue.kept().catch(() => null);
        if (kept === null) this.remove();
        else this.set(kept[member]);
      },
    });
  gauge('waybill_kept_bundles', 'Bundles of ended runs that are staged to be run again.', 'bundles');
  gauge('waybill_kept_bundles_bytes', 'Bytes of the bundles of ended runs that are staged.', 'bytes');
}
