import { WaybillError } from '../lib/errors.ts';
import type { Environment } from '../lib/secrets.ts';

/** The `tracing` section of the configuration. If a setting is null, the `OTEL_…` variable for it is used. */
export interface TracingSettings {
  /** The base URL of the collector, which does not end with `/`. The exporter adds `/v1/traces`. */
  endpoint: string | null;
  /** The variable that contains headers to send with every export, as in `name=value,name=value`. */
  headersEnv: string | null;
  serviceName: string | null;
  /** The fraction of traces started in this process that are recorded, from 0 to 1. */
  sampleRatio: number | null;
}

/**
 * Returns a function that decides whether to record a trace that starts in this process. This depends on
 * `sample_ratio` or, if it is not set, on `OTEL_TRACES_SAMPLER` and its argument. By default, every trace is
 * recorded. All processes make the same decision, because it is based on nothing but the first 8 hexadecimal
 * digits of the trace id. If a trace started somewhere else, it was decided there, as with the
 * `parentbased_…` samplers. Throws `config_invalid` if a variable is invalid.
 */
export function samplingOf(
  { sampleRatio }: Pick<TracingSettings, 'sampleRatio'>,
  env: Environment,
): (traceId: string) => boolean {
  const ratio = sampleRatio ?? ratioOf(env);
  const bound = ratio * 2 ** 32;
  return (traceId) => Number.parseInt(traceId.slice(0, 8), 16) < bound;
}

function ratioOf(env: Environment): number {
  const name = env['OTEL_TRACES_SAMPLER'] ?? '';
  switch (name.replace(/^parentbased_/, '')) {
    case '':
    case 'always_on':
      return 1;
    case 'always_off':
      return 0;
    case 'traceidratio':
      return argumentOf(env['OTEL_TRACES_SAMPLER_ARG'] ?? '1');
    default:
      throw new WaybillError(
        'config_invalid',
        `OTEL_TRACES_SAMPLER is "${name}", which waybill does not support`,
        {
          hint: 'use always_on, always_off or traceidratio, or set tracing.sample_ratio',
        },
      );
  }
}

function argumentOf(text: string): number {
  const ratio = text.trim() === '' ? Number.NaN : Number(text);
  if (ratio >= 0 && ratio <= 1) return ratio;
  throw new WaybillError('config_invalid', `OTEL_TRACES_SAMPLER_ARG is "${text}", not a number from 0 to 1`, {
    hint: 'set it to a ratio such as 0.1, or set tracing.sample_ratio',
  });
}

/**
 * Limits for the queue of spans. By default, the SDK exports every 5 s, with up to 2,048 spans in the queue
 * and 512 per export.
 */
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

/**
 * Reads the limits from the `OTEL_BSP_…` variables. Throws a `config_invalid` error if one of them is not a
 * number.
 */
export function batchLimitsOf(env: Environment): BatchLimits {
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

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
// Matches visible ASCII and spaces. The HTTP client would refuse anything else, but not before it sends the
// first span.
const headerValue = /^[\u0020-\u007e]*$/;

/**
 * Parses a secret that has the format of `OTEL_EXPORTER_OTLP_HEADERS`: pairs such as `name=value`, separated
 * by commas, with values that are percent-encoded. Throws a `secrets_invalid` error, which says which
 * variable is wrong but does not include its value.
 */
export function parseExportHeaders(secret: string, name: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const part of secret.split(',').map((one) => one.trim())) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const key = part.slice(0, Math.max(equals, 0)).trim();
    const value = decoded(part.slice(equals + 1).trim());
    if (!headerName.test(key) || value === null || !headerValue.test(value)) throw malformed(name);
    headers[key.toLowerCase()] = value;
  }
  if (Object.keys(headers).length === 0) throw malformed(name);
  return headers;
}

function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

function malformed(name: string): WaybillError {
  return new WaybillError(
    'secrets_invalid',
    `the secret ${name}, needed by tracing, is not a list of headers`,
    { hint: 'write it as in authorization=Bearer%20the-token,x-tenant=maps' },
  );
}
