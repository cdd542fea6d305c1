import { endpoint, environmentName, map, ratio, text } from '../../lib/settings/kinds.ts';

/** `tracing`. */
export const tracingSchema = map({
  endpoint: endpoint()
    .description(
      'Base URL of the collector, which takes OTLP over HTTP; /v1/traces is added. Left out: as OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT say, else http://localhost:4318.',
    )
    .example('http://collector.example.org:4318'),
  headers_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds headers for the collector, such as its token, in the form of OTEL_EXPORTER_OTLP_HEADERS: name=value, several with commas between, values percent-encoded.',
    )
    .example('WAYBILL_TRACING_HEADERS'),
  service_name: text('a name on one line', 'text')
    .description(
      'Name of the service in its spans. Left out: as OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES say, else waybill.',
    )
    .example('waybill-maps'),
  sample_ratio: ratio()
    .description(
      'Share of the traces that begin here and are recorded. A trace that a client has begun is recorded if the client says so. Left out: as OTEL_TRACES_SAMPLER says, else 1.',
    )
    .example(0.1),
}).description(
  'OpenTelemetry tracing of waybill serve, worker and run: on if this stands here, even if it is empty ({}). See docs/tracing.md.',
);
