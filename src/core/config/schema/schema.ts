import { logLevels, requestLoggings } from '../../lib/log.ts';
import {
  amount,
  boolean,
  choice,
  duration,
  endpoint,
  environmentName,
  id,
  instant,
  list,
  map,
  path,
  ratio,
  text,
} from '../../lib/settings/kinds.ts';
import type { AcceptedBy } from '../../lib/settings/setting.ts';
import { notifier } from '../../notify/sink-kinds.ts';
import { parsePublicKey } from '../../signing/public-key.ts';
import { parseCron, parseTimeZone } from '../timetable.ts';
import { databases } from '../weather/databases.ts';
import { templates, weather } from '../weather/settings.ts';
import { auditSchema } from './audit.ts';
import { destinationSchema, sourceSchema } from './locations.ts';
import { trustedPublisher } from './publishers.ts';
import { defaultScopes, scopes } from './scopes.ts';
import { serverSchema } from './server.ts';

/*
 * Defines what can be in the configuration file: names, formats, ranges, defaults and descriptions. The types
 * of documents, the JSON Schema for editors, and the reference in `docs/configuration.md` all come from here.
 * How settings work together is checked in `relations.ts`.
 */

export { defaultScopes, type Scope, scopes } from './scopes.ts';

/** Settings that start runs. `pipeline-relations.ts` checks whether they work together. */
const scheduleSettings = {
  schedule: text(
    'five fields of cron (minute, hour, day of month, month, day of week) such as "*/15 * * * *", or @hourly, @daily, @weekly, @monthly or @yearly',
    'cron pattern',
    parseCron,
  )
    .description(
      'Cron pattern that starts runs of this pipeline. Needs a source other than http_upload. See docs/schedules.md.',
    )
    .example('*/15 * * * *'),
  timezone: text(
    'the IANA name of a time zone such as Europe/Berlin, America/New_York or UTC',
    'time zone',
    parseTimeZone,
  )
    .default('UTC')
    .description('Time zone of the schedule.')
    .example('Europe/Berlin'),
  catch_up: choice('none', 'once')
    .default('none')
    .description(
      'Handling of ticks that were missed because no daemon was running. none: skips them. once: starts one run for all of them.',
    ),
  jitter: duration({ atLeast: '0s', atMost: '1h' })
    .default('0s')
    .description(
      'Maximum random delay of a run after its tick. The delay is the same on every host and ends before the next tick.',
    )
    .example('30s'),
  watch: boolean().default(false).description('Starts a run when the source changes. Needs a local source.'),
  settle: duration({ atLeast: '100ms', atMost: '1h' })
    .default('2s')
    .description('How long a watched source must be unchanged before the run starts.')
    .example('10s'),
};

/** The `log` section of the configuration. */
const logSchema = map({
  level: choice(...logLevels)
    .default('info')
    .description(
      'Minimum level of log lines. --verbose lowers it to debug. At warn and above, notifiers of kind log print nothing.',
    ),
  requests: choice(...requestLoggings)
    .default('all')
    .description(
      'Which requests are logged: all, errors (status 400 and above, or aborted by the client) or none. Successful probes (/healthz, /readyz, /livez, /metrics) are logged at level debug. Internal errors are always logged.',
    ),
}).description('Log of waybill serve, worker and weather. Other commands log only with --verbose.');

/** The `tracing` section of the configuration. */
export const tracingSchema = map({
  endpoint: endpoint()
    .description(
      'Base URL of the collector (OTLP over HTTP); /v1/traces is appended. Default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.',
    )
    .example('http://collector.example.org:4318'),
  headers_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with headers for the collector, such as its token. The format is that of OTEL_EXPORTER_OTLP_HEADERS: comma-separated name=value pairs with percent-encoded values.',
    )
    .example('WAYBILL_TRACING_HEADERS'),
  service_name: text('a name on one line', 'text')
    .description(
      'Service name in spans. Default: OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES, else waybill.',
    )
    .example('waybill-maps'),
  sample_ratio: ratio()
    .description(
      'Share of new traces that are recorded, from 0 to 1. For a trace that a client started, the decision of the client applies. Default: OTEL_TRACES_SAMPLER, else 1.',
    )
    .example(0.1),
}).description(
  'OpenTelemetry tracing of waybill serve, worker and run. An empty map ({}) enables it. See docs/tracing.md.',
);

export const secrets = map({
  directory: path()
    .description(
      'Directory of secret files. Each file is named like an environment variable and holds its value. The environment takes precedence over a file. Default: the credentials that systemd passes to the service (LoadCredential), if any.',
    )
    .example('./secrets'),
}).description('Sources of secret values in addition to the environment.');

export const uploadToken = map({
  id: id()
    .required()
    .description(
      'Name of the token in logs, run records and the scope of idempotency keys. It is not the secret.',
    )
    .example('ci'),
  value_env: environmentName()
    .required()
    .description(
      'Environment variable, or file in secrets.directory, with the token, or sha256: and the 64 hexadecimal digits of its SHA-256.',
    )
    .example('WAYBILL_TOKEN_CI'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' })
    .required()
    .description('Ids of the pipelines that the token may use.'),
  scopes: list(choice(...scopes), { min: 1, expected: `a list of some of ${scopes.join(', ')}` })
    .default([...defaultScopes])
    .description(
      'Rights of the token for its pipelines: upload bundles, start runs (run), cancel runs and pause the pipeline (cancel), change the current release (releases), read runs and releases and follow runs (read), or read the audit trail (audit). Default: all but audit.',
    )
    .example(['read']),
  expires: instant()
    .description('Expiry time: later requests get 401 token_expired. Without it, the token does not expire.')
    .example('2027-01-31T00:00:00Z'),
});

const publicKeySetting = text(
  'a public key of minisign: the line after its comment, which begins with RW',
  'public key',
  (value) => {
    const parsed = parsePublicKey(value);
    return parsed.ok ? { ok: true, value } : parsed;
  },
);

/** The `signatures` of a pipeline. */
const signatures = map(
  {
    required: boolean()
      .default(true)
      .description(
        'Whether an unsigned bundle is refused. With false it is published with a warning; a signature must still be valid.',
      ),
    keys: list(publicKeySetting, { min: 1, expected: 'a list of public keys, at least one' })
      .description('Public keys whose signatures are accepted.')
      .example(['RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3']),
    keys_file: path()
      .description('File with these keys instead: one or more .pub files, one after another.')
      .example('./trusted.pub'),
  },
  { oneOf: [['keys', 'keys_file']] },
).description(
  'Which signatures the bundles of the pipeline need (manifest.json.minisig). Checked before an upload is accepted, and again before publication. A signed bundle that is older than the published one is refused. See docs/signatures.md.',
);

const pipelineSettings = {
  max_waiting: amount()
    .description(
      'Maximum number of uploads and runs of this pipeline that are being received or waiting: a number, or a percentage of server.http.queue_size, rounded down, at least 1. The next one gets 429 pipeline_full. Default: three quarters of queue_size with several pipelines, queue_size with one.',
    )
    .example('50%'),
  retry_for: duration({ atLeast: '0s', atMost: '7d' })
    .description(
      'How long a run that failed for a temporary cause is retried, counted from its first failure. 0s disables retries. Default: server.retry_for.',
    )
    .example('2h'),
  while_retrying: choice('pass', 'wait')
    .default('pass')
    .description(
      'Whether later runs of the pipeline pass a run that waits for its next attempt, or wait behind it. In both cases, a newer upload of the same bundle path replaces the waiting run. Later runs always wait if the pipeline has both fixed and other destinations.',
    ),
  run_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .description('Time limit for one attempt of a run. Default: server.run_timeout.')
    .example('2h'),
  discovery_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .description('Time limit for reading the source. Default: server.discovery_timeout.')
    .example('10m'),
  ...scheduleSettings,
  scene_maps: map({
    content_rules: choice('warning', 'error')
      .default('warning')
      .description(
        'Severity of a scene map that breaks a content rule (order, gaps, overlaps, …). warning: the bundle is published. error: the bundle is invalid.',
      ),
  })
    .default()
    .description('Validation of scene maps in bundles.'),
  signatures,
};

/** The settings of a pipeline, apart from its source and destinations. */
export const pipelineMap = map(pipelineSettings);

const pipeline = map({
  id: id()
    .required()
    .description(
      'Name of the pipeline in URLs, on the command line and in catalogs. After a rename, the published files no longer belong to the pipeline.',
    )
    .example('maps'),
  source: sourceSchema.required(),
  destinations: list(destinationSchema, { min: 1, expected: 'a list of destinations, at least one' })
    .required()
    .description(
      'Destinations of the bundles. They are independent: if one fails, the others are still attempted.',
    ),
  ...pipelineSettings,
});

export const configSchema = map({
  secrets: secrets.default(),
  trusted_directories: list(path(), { min: 0, expected: 'a list of directories' })
    .default([])
    .description(
      'Directories that are trusted with everything in them, regardless of owner and mode. Any other directory, key file or secret that another user can change is refused at startup. See docs/operations.md.',
    )
    .example(['/mnt/shared']),
  upload_tokens: list(uploadToken, { min: 0, expected: 'a list of upload tokens' })
    .default([])
    .description('Tokens of producers and operators.'),
  trusted_publishers: list(trustedPublisher, { min: 0, expected: 'a list of trusted publishers' })
    .default([])
    .description(
      'CI jobs that upload without a stored secret: POST /v1/token exchanges their ID token for a token of a few minutes. See docs/how-to/ci-without-secrets.md.',
    ),
  server: serverSchema.default(),
  log: logSchema.default(),
  tracing: tracingSchema,
  audit: auditSchema,
  pipelines: list(pipeline, { min: 0, expected: 'a list of pipelines' })
    .default([])
    .description('Pipelines: each connects one source to one or more destinations.'),
  notifiers: list(notifier, { min: 0, expected: 'a list of notifiers' })
    .default([])
    .description(
      'Receivers of events about publications. See docs/events.md and, for Slack, Discord and e-mail, docs/notifications.md.',
    ),
  databases,
  templates: templates.default(),
  weather: weather.default(),
}).description(
  'Configuration of waybill. Unknown keys are refused. Durations: 500ms 30s 15m 24h 7d. Sizes: 512MiB 2GB 10KiB or whole bytes.',
);

/** A document that the schema accepted. Names and units are as in the file, and defaults are filled in. */
export type ConfigDocument = AcceptedBy<typeof configSchema>;
export type PipelineDocument = ConfigDocument['pipelines'][number];
