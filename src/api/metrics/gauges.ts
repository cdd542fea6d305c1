import { Counter, Gauge, type Registry } from 'prom-client';
import type { BundleUsage, JobQueue } from '../../workers/queue/job-queue.ts';
import type { ThreadStats } from '../../workers/threads/pool.ts';
import type { Readiness, ReadinessFound } from '../daemon/readiness.ts';
import type { ConnectionStats } from '../http/listen.ts';
import type { StreamStats } from '../runs/event-stream.ts';

/*
 * Gauges whose values are read from the daemon on every scrape. If a value cannot be read, its series is left
 * out; the others are not affected.
 */

export interface ObservedReadiness {
  readiness: Readiness;
  /** Returns the number of free bytes on the disk that stores uploads. */
  freeBytes: () => Promise<number>;
}

export interface ObservedDaemon extends ObservedReadiness {
  queue: Pick<JobQueue, 'bundleUsage' | 'depth' | 'overview' | 'pauses' | 'waitingSince'>;
  /** The ids of all configured pipelines. */
  pipelines: () => Iterable<string>;
  /** The name of the configured queue driver. */
  driver: string;
  threads: () => ThreadStats;
  connections: () => ConnectionStats;
  streams: () => StreamStats;
  partialUploads: () => { uploads: number; bytes: number };
  content: () => { files: number; bytes: number };
  /** null if no weather database is configured. */
  weather: { isHealthy(): boolean } | null;
  /** The ids of all configured notifiers. */
  notifiers: () => Iterable<string>;
  /** Returns how many undelivered events each notifier has. Notifiers without any are left out. */
  undelivered: () => Promise<ReadonlyMap<string, number>>;
}

export function observeDaemon(registry: Registry, daemon: ObservedDaemon): void {
  const { weather, connections, streams, undelivered, notifiers } = daemon;
  const { gauge, gauges, total, totals } = observers(registry);
  if (weather !== null)
    gauge('waybill_weather_database_up', '1 if the weather database answered the last query, else 0.', () =>
      weather.isHealthy() ? 1 : 0,
    );
  gauge('waybill_connections', 'Open connections.', () => connections().open);
  total(
    'waybill_connections_refused_total',
    'Connections closed immediately because too many were open.',
    () => connections().refused,
  );
  observeQueue(registry, daemon);
  observePipelines(registry, daemon);
  observeKeptBundles(registry, daemon.queue);
  observeReadiness(registry, daemon);
  gauge('waybill_event_streams', 'Open event streams.', () => streams().open);
  totals('waybill_event_streams_ended_total', 'Ended event streams, by reason.', 'end', () =>
    Object.entries(streams().ended),
  );
  observeKeptBytes(registry, daemon);
  observeThreads(registry, daemon.threads);
  gauges(
    'waybill_undelivered_events',
    'Undelivered events that can be redelivered.',
    'notifier',
    async () => {
      const counts = await undelivered().catch(() => null);
      if (counts === null) return [];
      return [...[...notifiers()].map((id): [string, number] => [id, 0]), ...counts];
    },
  );
}

function observeKeptBytes(
  registry: Registry,
  { partialUploads, content }: Pick<ObservedDaemon, 'partialUploads' | 'content'>,
): void {
  const { gauge } = observers(registry);
  gauge(
    'waybill_partial_uploads',
    'Resumable uploads that are incomplete or not yet accepted.',
    () => partialUploads().uploads,
  );
  gauge(
    'waybill_partial_uploads_bytes',
    'Bytes received of resumable uploads that are incomplete or not yet accepted.',
    () => partialUploads().bytes,
  );
  gauge(
    'waybill_kept_files',
    'Uploaded files kept by digest, so that producers send only changed files.',
    () => content().files,
  );
  gauge(
    'waybill_kept_files_bytes',
    'Size of the kept files. server.staging.keep.size limits it for each pipeline.',
    () => content().bytes,
  );
}

function observeQueue(registry: Registry, { queue, driver }: Pick<ObservedDaemon, 'queue' | 'driver'>): void {
  const { gauges } = observers(registry);
  gauges(
    'waybill_queue_info',
    'Always 1. The label is the queue driver: memory, embedded or bullmq.',
    'driver',
    () => [[driver, 1]],
  );
  gauges(
    'waybill_queue_depth',
    'Uploads being received (reserved), waiting runs (queued) and active runs (running).',
    'state',
    async () => Object.entries({ ...(await queue.depth().catch(() => null)) }),
  );
}

function observePipelines(
  registry: Registry,
  { queue, pipelines }: Pick<ObservedDaemon, 'queue' | 'pipelines'>,
): void {
  const { gauges } = observers(registry);
  gauges(
    'waybill_queue_oldest_seconds',
    'Waiting time of the run that has waited longest; 0 if no run is waiting.',
    'pipeline',
    async () => {
      const ids = [...pipelines()];
      const waiting = await queue.waitingSince(ids).catch(() => []);
      const now = Date.now();
      return ids.flatMap((id, index): [string, number][] => {
        const since = waiting[index];
        if (since === undefined) return [];
        return [[id, since === null ? 0 : Math.max((now - Date.parse(since)) / 1000, 0)]];
      });
    },
  );
  gauges(
    'waybill_runs_retrying',
    'Runs that failed for a temporary cause and wait for a retry.',
    'pipeline',
    async () => {
      const ids = [...pipelines()];
      const overviews = await queue.overview(ids).catch(() => []);
      return overviews.map(({ retrying }, index): [string, number] => [ids[index] ?? '', retrying]);
    },
  );
  gauges(
    'waybill_pipeline_paused',
    '1 if the pipeline is paused, so that its runs do not start, else 0.',
    'pipeline',
    async () => {
      const pauses = await queue.pauses().catch(() => null);
      if (pauses === null) return [];
      return [...pipelines()].map((id): [string, number] => [id, pauses.has(id) ? 1 : 0]);
    },
  );
}

function observeKeptBundles(registry: Registry, queue: Pick<JobQueue, 'bundleUsage'>): void {
  const { gauge } = observers(registry);
  const kept = (): Promise<BundleUsage | null> => queue.bundleUsage().catch(() => null);
  gauge(
    'waybill_kept_bundles',
    'Staged bundles of finished runs, kept for reruns.',
    async () => (await kept())?.bundles ?? null,
  );
  gauge(
    'waybill_kept_bundles_bytes',
    'Size of the staged bundles of finished runs.',
    async () => (await kept())?.bytes ?? null,
  );
}

export function observeReadiness(registry: Registry, { readiness, freeBytes }: ObservedReadiness): void {
  const { gauge, gauges } = observers(registry);
  let checking: Promise<ReadinessFound | null> | undefined;
  // All gauges in a scrape share one check. If the check itself has a bug, the error is reported elsewhere.
  const check = (): Promise<ReadinessFound | null> =>
    (checking ??= readiness
      .look()
      .catch(() => null)
      .finally(() => (checking = undefined)));
  gauge('waybill_ready', '1 if uploads are accepted, as in /readyz, else 0.', async () =>
    (await check())?.failure === null ? 1 : 0,
  );
  gauge('waybill_staging_free_bytes', 'Free space on the disk that receives uploads.', async () => {
    // Do not touch a disk that hangs, because each scrape would block another thread of the pool.
    const checks = (await check())?.checks ?? [];
    const isUsable = checks.some(({ name, state }) => name === 'staging' && state === 'ok');
    return isUsable ? freeBytes().catch(() => null) : null;
  });
  gauges('waybill_check_up', '1 if the dependency is usable, else 0.', 'check', async () =>
    ((await check())?.checks ?? []).map(({ name, state }): [string, number] => [
      name,
      state === 'ok' ? 1 : 0,
    ]),
  );
}

export function observeThreads(registry: Registry, threads: () => ThreadStats): void {
  const { gauge, total } = observers(registry);
  gauge('waybill_worker_threads', 'Worker threads of the process.', () => threads().threads);
  gauge('waybill_worker_threads_busy', 'Worker threads that are publishing.', () => threads().busy);
  total(
    'waybill_worker_threads_replaced_total',
    'Worker threads that crashed or were terminated.',
    () => threads().replaced,
  );
}

type GaugeValue = number | null;
/** A value for each label. */
type Values = Iterable<readonly [string, number]>;

interface Observers {
  gauge: (name: string, help: string, read: () => GaugeValue | Promise<GaugeValue>) => void;
  gauges: (name: string, help: string, label: string, read: () => Values | Promise<Values>) => void;
  total: (name: string, help: string, read: () => number) => void;
  totals: (name: string, help: string, label: string, read: () => Values) => void;
}

/** Returns functions that add gauges to a registry, either with one value or with one value per label. */
function observers(registry: Registry): Observers {
  const registers = [registry];
  return {
    gauge: (name, help, read) =>
      new Gauge({
        name,
        help,
        registers,
        async collect() {
          const value = await read();
          if (value === null) this.remove();
          else this.set(value);
        },
      }),
    gauges: (name, help, label, read) =>
      new Gauge({
        name,
        help,
        labelNames: [label],
        registers,
        async collect() {
          const values = await read();
          this.reset();
          for (const [key, value] of values) this.set({ [label]: key }, value);
        },
      }),
    total: (name, help, read) =>
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset();
          this.inc(read());
        },
      }),
    totals: (name, help, label, read) =>
      new Counter({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset();
          for (const [key, value] of read()) this.inc({ [label]: key }, value);
        },
      }),
  };
}
