import { WaybillError } from '../errors.ts';

/** How spans wait to be sent. What is left out is as the SDK has it: every 5 s, 2,048 spans, 512 at once. */
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

/** As the variables of OpenTelemetry say. Throws `config_invalid` for one that is no number. Pure. */
export function batchLimitsOf(env: Readonly<Record<string, string | undefined>>): BatchLimits {
  const limits: BatchLimits = {};
  for (const [name, limit] of Object.entries(variables)) {
    const text = env[name]?.trim() ?? '';
    if (text === '') continue;
    if (!/^[1-9]\d{0,8}$/.test(text))
      throw new WaybillError('config_invalid', `${name} is "${text}", and not a whole number from 1 on`, {
        hint: 'leave it out for what is usual',
      });
    limits[limit] = Number(text);
  }
  return limits;
}
