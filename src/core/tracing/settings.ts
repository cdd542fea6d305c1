/** The `tracing` section of the configuration. The `OTEL_…` variables replace values that are null. */
export interface TracingSettings {
  /** Base URL of the collector without a trailing `/`. The exporter appends `/v1/traces`. */
  endpoint: string | null;
  /** Name of the variable with the headers of every export, in the form `name=value,name=value`. */
  headersEnv: string | null;
  serviceName: string | null;
  /** Share of the traces started in this process that are recorded, from 0 to 1. */
  sampleRatio: number | null;
}
