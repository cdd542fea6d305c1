import type { Clock } from '../clock.ts';
import { WaybillError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Secrets } from '../secrets.ts';
import { batchLimitsOf } from './batch-limits.ts';
import { parseExportHeaders } from './export-headers.ts';
import type { SpanExport } from './open-telemetry.ts';
import { samplingOf } from './sampling.ts';
import type { TracingSettings } from './settings.ts';
import { noTracer, recordingTracer, type FinishedSpan, type Tracer } from './span.ts';

export interface Tracing {
  readonly tracer: Tracer;
  /** Takes a span that has ended elsewhere, as on a thread of this process. */
  report(span: FinishedSpan): void;
  /** Sends what is recorded, within so many milliseconds; what is not sent by then is lost. Never rejects. */
  close(withinMs: number): Promise<void>;
}

/** Nothing is traced. */
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
  /** How long sending may be tried, in milliseconds; by default as the SDK and its variables say. */
  sendAtMostMs?: number;
}

/**
 * Opens what the configuration asks for; nothing is connected to yet. OpenTelemetry is loaded only if there
 * is something to trace, so that nobody else waits for it. `OTEL_SDK_DISABLED=true` turns tracing off
 * whatever is configured. Throws `secrets_invalid` if the headers are missing or malformed, and
 * `config_invalid` if a variable of the environment cannot be used.
 *
 * A collector that is away or slow harms nobody: spans wait in a queue of bounded length, what does not fit
 * is dropped, and one line of the log says when sending fails and when it works again.
 */
export async function openTracing(
  settings: TracingSettings | null,
  { clock, log, secrets, env, version, sendAtMostMs }: TracingContext,
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
    if (failure === null) log.info({}, 'spans are exported again');
    else log.warn({ reason: failure }, 'spans cannot be exported, and are lost until they can');
  };
  const { endpoint, serviceName } = settings;
  const batches = { limits, onHealth, sendAtMostMs };
  const spans = openSpanExport({ endpoint, headers, serviceName, version, ...batches });
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

/** Silence would be worse: spans that are sent in a form that the collector was not set up for. */
function refuseOtherProtocols(env: TracingContext['env']): void {
  for (const name of ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'OTEL_EXPORTER_OTLP_PROTOCOL']) {
    const protocol = env[name];
    if (protocol === undefined || protocol === '' || protocol.startsWith('http/')) continue;
    throw new WaybillError('config_invalid', `${name} is "${protocol}", and waybill sends spans over HTTP`, {
      hint: 'set it to http/json, or leave it out, and name the HTTP port of the collector (4318)',
    });
  }
}
