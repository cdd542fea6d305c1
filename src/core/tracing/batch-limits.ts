import { WaybillError } from '../lib/errors.ts';

/** Limits of the span queue. Defaults of the SDK: an export every 5 s, 2,048 queued spans, 512 per export. */
export interface BatchLimits {
  scheduledDelayMillis?: number;
  exportTimeoutMillis?: number;
  maxQueueSize?: number;
  maxExportBatchSize?: number;
}

const variables = {
  OTEL_BSP_SCHEDULE_DELAY: 'scheduledDelayMillis',
  OTEL_BSP_EXPORT_TIMEOUT: 'exportTimeoutMillis',
  OTEL_BSP_MAX_QUEUE_SIZE: 'maxQueueSize',
  OTEL_BSP_MAX_EXPORT_BATCH_SIZE: 'maxExportBatchSize',
} as const satisfies Record<string, keyof BatchLimits>;

/** Reads the limits from the `OTEL_BSP_…` variables. Throws `config_invalid` for a malformed number. Pure. */
export function batchLimitsOf(env: Readonly<Record<string, string | undefined>>): BatchLimits {
  const limits: BatchLimits = {};
  for (const [name, limit] of Object.entries(variables)) {
    const text = env[name]?.trim() ?? '';
    if (text === '') continue;
    if (!/^[1-9]\d{0,8}$/.test(text))
      throw new WaybillError('config_invalid', `${name} is "${text}", not a positive whole number`, {
        hint: 'unset it to use the default',
      });
    limits[limit] = Number(text);
  }
  return limits;
}
