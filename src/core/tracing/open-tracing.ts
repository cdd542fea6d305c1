import type { Clock } from '../lib/clock.ts';
import { WaybillError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Environment, Secrets } from '../lib/secrets.ts';
import { batchLimitsOf, parseExportHeaders, samplingOf, type TracingSettings } from './environment.ts';
import type { SpanExport } from './open-telemetry.ts';
import { type FinishedSpan, noTracer, recordingTracer, type Tracer } from './span.ts';

export interface Tracing {
  readonly tracer: Tracer;
  /** Exports a span from another thread of this process. */
  report(span: FinishedSpan): void;
  /**
   * Exports all recorded spans. If some have not been sent after `withinMs` milliseconds, they are lost.
   * Never rejects.
   */
  close(withinMs: number): Promise<void>;
}

/** Does not record or export anything, for when tracing is off. */
export const noTracing: Tracing = {
  tracer: noTracer,
  report: () => undefined,
  close: async () => undefined,
};

interface TracingContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  env: Environment;
  version: string;
  /**
   * How long an export can take, including retries, in milliseconds. Defaults to the SDK's own limit or its
   * environment variables.
   */
  exportTimeoutMs?: number;
}

/**
 * Sets up tracing according to the configuration, without connecting to the collector. OpenTelemetry is not
 * loaded unless tracing is on. If `OTEL_SDK_DISABLED=true`, it is off, whatever the configuration says.
 * Throws `secrets_invalid` if the headers are missing or malformed, and `config_invalid` if an environment
 * variable is invalid.
 *
 * If the collector is slow or cannot be reached, the program never has to wait. Spans are kept in a queue,
 * and if that is full, they are dropped. There is a line in the log when exports start to fail, and another
 * when they work again.
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

/**
 * Refuses gRPC. If spans are sent over HTTP to the port that a collector uses for gRPC, they get lost without
 * an error.
 */
function refuseOtherProtocols(env: TracingContext['env']): void {
  for (const name of ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']) {
    const protocol = env[name];
    if (protocol === undefined || protocol === '' || protocol.startsWith('http/')) continue;
    throw new WaybillError('config_invalid', `${name} is "${protocol}", but waybill sends spans over HTTP`, {
      hint: 'set it to http/json or unset it, and use the HTTP port of the collector (4318)',
    });
  }
}
