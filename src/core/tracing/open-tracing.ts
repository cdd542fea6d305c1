import type { Clock } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import { batchLimitsOf, parseExportHeaders, samplingOf, type TracingSettings } from './environment.ts';
import type { SpanExport } from './open-telemetry.ts';
import { type FinishedSpan, noTracer, recordingTracer, type Tracer } from './span.ts';

export interface Tracing {
  readonly tracer: Tracer;
  /** Exports a span that ended on another thread of this process. */
  report(span: FinishedSpan): void;
  /**
   * Exports the recorded spans. Spans that are not sent within `withinMs` milliseconds are lost. Never
   * rejects.
   */
  close(withinMs: number): Promise<void>;
}

/** Disabled tracing, which records and exports nothing. */
export const noTracing: Tracing = {
  tracer: noTracer,
  report: () => undefined,
  close: async () => undefined,
};

export interface TracingContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  env: Readonly<Record<string, string | undefined>>;
  version: string;
  /**
   * The timeout for one export including retries, in milliseconds. Default: the SDK's, or its environment
   * variables.
   */
  exportTimeoutMs?: number;
}

/**
 * Sets up tracing as configured, without connecting to the collector. OpenTelemetry is loaded only if tracing
 * is on. `OTEL_SDK_DISABLED=true` disables tracing regardless of the configuration. Throws `secrets_invalid`
 * if the headers are missing or malformed, and `config_invalid` for an invalid environment variable.
 *
 * A slow or unreachable collector never blocks the program. Spans wait in a bounded queue, and those that do
 * not fit are dropped. One line is logged when exports start to fail, and another when they recover.
 */
export async function openTracing(
  settings: TracingSettings | null,
  { clock, log, secrets, env, version, exportTimeoutMs }: TracingContext,
): Promise<Tracing> {
  if (settings === null || env['OTEL_SDK_DISABLED']?.toLowerCase() === 'true') return noTracing;
  const { headersEnv } = settings;
  const headers =
    headersEnv === null ? {} : parseExportHeaders(secrets.require(headersEnv, 'tracing'), headersEnv);
  const sampling = samplingOf(settings, env);
  const limits = batchLimitsOf(env);
  refuseOtherProtocols(env);
  const { openSpanExport } = await import('./open-telemetry.ts');
  const onHealth = (failure: string | null): void => {
    if (failure === null) log.info({}, 'span export works again');
    else log.warn({ reason: failure }, 'span export failed; spans are lost until it works again');
  };
  const { endpoint, serviceName } = settings;
  const spans = openSpanExport({
    endpoint,
    headers,
    serviceName,
    version,
    limits,
    onHealth,
    exportTimeoutMs,
  });
  return {
    tracer: recordingTracer({ clock, report: (span) => spans.add(span), samples: sampling }),
    report: (span) => spans.add(span),
    close: (withinMs) => closeWithin(spans, withinMs, clock),
  };
}

async function closeWithin(spans: SpanExport, withinMs: number, clock: Clock): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = clock.timeout(withinMs, resolve);
    void spans.close().then(() => {
      timer.cancel();
      resolve();
    });
  });
}

/** Rejects gRPC, because a collector's gRPC port silently drops spans sent over HTTP. */
function refuseOtherProtocols(env: TracingContext['env']): void {
  for (const name of ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']) {
    const protocol = env[name];
    if (protocol === undefined || protocol === '' || protocol.startsWith('http/')) continue;
    throw new WaybillError('config_invalid', `${name} is "${protocol}", but waybill sends spans over HTTP`, {
      hint: 'set it to http/json or unset it, and use the HTTP port of the collector (4318)',
    });
  }
}
