import { boolean, environmentName, map } from '../../lib/settings/kinds.ts';

/** `server.metrics`. */
export const metricsSchema = map({
  enabled: boolean().default(true).description('Serves GET /metrics, in the text format of Prometheus.'),
  token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the bearer token that GET /metrics asks for. Without it, none is asked for.',
    )
    .example('WAYBILL_METRICS_TOKEN'),
}).description('Metrics of the daemon: counts by the ids of this configuration.');
