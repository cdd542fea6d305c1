import { Gauge, type Registry } from 'prom-client';
import type { Readiness, ReadinessFound } from '../health/readiness.ts';

export interface ObservedReadiness {
  readiness: Readiness;
  /** Room for uploads that are received. */
  freeBytes: () => Promise<number>;
}

/** Adds gauges that look, whenever the metrics are read, whether uploads are taken. */
export function observeReadiness(registry: Registry, { readiness, freeBytes }: ObservedReadiness): void {
  const registers = [registry];
  let looking: Promise<ReadinessFound | null> | undefined;
  // Both gauges are read at once; a defect is for readiness itself to report.
  const look = (): Promise<ReadinessFound | null> =>
    (looking ??= readiness
      .look()
      .catch(() => null)
      .finally(() => (looking = undefined)));
  new Gauge({
    name: 'waybill_ready',
    help: '1 if uploads are taken, as /readyz says, else 0.',
    registers,
    async collect() {
      const found = await look();
      this.set(found !== null && found.failure === null ? 1 : 0);
    },
  });
  new Gauge({
    name: 'waybill_staging_free_bytes',
    help: 'Room on the disk into which uploads are received.',
    registers,
    async collect() {
      // A disk that hangs would take a thread of the pool for each scrape.
      const found = await look();
      const isKnown = found?.checks.some(({ name, state }) => name === 'staging' && state === 'ok') ?? false;
      const free = isKnown ? await freeBytes().catch(() => null) : null;
      if (free === null) this.remove();
      else this.set(free);
    },
  });
  new Gauge({
    name: 'waybill_check_up',
    help: '1 if what the process depends on can be used, else 0.',
    labelNames: ['check'],
    registers,
    async collect() {
      const found = await look();
      this.reset();
      for (const { name, state } of found?.checks ?? []) this.set({ check: name }, state === 'ok' ? 1 : 0);
    },
  });
}
