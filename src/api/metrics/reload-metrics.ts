import type { Definer } from './definer.ts';

export interface ReloadMetrics {
  /** Records that the configuration was read; the start is the first time. */
  configRead(done: { succeeded: boolean; at: Date }): void;
}

/** Named as Prometheus names its own, so that rules for one are rules for the other. */
export function reloadMetrics({ gauge }: Definer): ReloadMetrics {
  const successful = gauge(
    'waybill_config_last_reload_successful',
    '1 if the configuration was taken over when it was last read, at the start or by a reload, else 0.',
    [],
  );
  const at = gauge(
    'waybill_config_last_reload_success_timestamp_seconds',
    'When the configuration that is in force was read.',
    [],
  );
  return {
    configRead: (done) => {
      successful.set(done.succeeded ? 1 : 0);
      if (done.succeeded) at.set(done.at.getTime() / 1000);
    },
  };
}
