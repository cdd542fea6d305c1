/** `tracing` of the configuration. What is null is taken from the `OTEL_…` variables of the environment. */
export interface TracingSettings {
  /** Base URL of the collector, without a closing `/`; `/v1/traces` is added. */
  endpoint: string | null;
  /** Variable that holds the headers of every export, as `name=value,name=value`. */
  headersEnv: string | null;
  serviceName: string | null;
  /** Share of the traces that begin here and are recorded, from 0 to 1. */
  sampleRatio: number | null;
}
