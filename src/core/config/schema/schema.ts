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
    .description('Starts runs by a cron pattern. Needs a source other than http_upload.')
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
    .description('Ticks missed while no daemon ran. none: skipped. once: one run for all of them.'),
  jitter: duration({ atLeast: '0s', atMost: '1h' })
    .default('0s')
    .description('Maximum random delay of a run after its tick, the same on every host.')
    .example('30s'),
  watch: boolean().default(false).description('Starts a run when the source changes. Needs a local source.'),
  settle: duration({ atLeast: '100ms', atMost: '1h' })
    .default('2s')
    .description('How long a watched source must be unchanged before the run.')
    .example('10s'),
};

const logSchema = map({
  level: choice(...logLevels)
    .default('info')
    .description(
      'Minimum level. --verbose lowers it to debug. At warn and above, notifiers of kind log print nothing.',
    ),
  requests: choice(...requestLoggings)
    .default('all')
    .description(
      'Logged requests. errors: status 400 and above, or aborted by the client. Successful probes have level debug. Internal errors are always logged.',
    ),
}).description('Log of waybill serve, worker and weather. Other commands log only with --verbose.');

export const tracingSchema = map({
  endpoint: endpoint()
    .description(
      'Base URL of the collector (OTLP over HTTP), without /v1/traces. Default: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT, else http://localhost:4318.',
    )
    .example('http://collector.example.org:4318'),
  headers_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with headers for the collector, in the format of OTEL_EXPORTER_OTLP_HEADERS: comma-separated name=value pairs with percent-encoded values.',
    )
    .example('WAYBILL_TRACING_HEADERS'),
  service_name: text('a name on one line', 'text')
    .description(
      'Service name in spans. Default: OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES, else waybill.',
    )
    .example('waybill-maps'),
  sample_ratio: ratio()
    .description(
      'Share of new traces that are recorded, 0–1. If the client started the trace, the client decides. Default: OTEL_TRACES_SAMPLER, else 1.',
    )
    .example(0.1),
}).description('OpenTelemetry tracing of waybill serve, worker and run. {} enables it. See docs/tracing.md.');

export const secrets = map({
  directory: path()
    .description(
      'Directory with a file for each secret. Default: the systemd credentials of the service (LoadCredential).',
    )
    .example('./secrets'),
}).description('Secrets outside the environment.');

export const uploadToken = map({
  id: id()
    .required()
    .description('Name of the token in logs, run records and the scope of idempotency keys.')
    .example('ci'),
  value_env: environmentName()
    .required()
    .description(
      'Environment variable, or file in secrets.directory, with the token, or sha256: and its hexadecimal SHA-256.',
    )
    .example('WAYBILL_TOKEN_CI'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' })
    .required()
    .description('Pipelines that the token may use.'),
  scopes: list(choice(...scopes), { min: 1, expected: `a list of some of ${scopes.join(', ')}` })
    .default([...defaultScopes])
    .description('Rights, which docs/http-api.md explains. Default: all but audit.')
    .example(['read']),
  expires: instant()
    .description('Later requests get 401 token_expired. Default: never.')
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
        'Refuses unsigned bundles. false: publishes them with a warning; a signature must still be valid.',
      ),
    keys: list(publicKeySetting, { min: 1, expected: 'a list of public keys, at least one' })
      .description('Accepted public keys.')
      .example(['RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3']),
    keys_file: path()
      .description('File with these keys instead: one or more .pub files, concatenated.')
      .example('./trusted.pub'),
  },
  { oneOf: [['keys', 'keys_file']] },
).description('Required signatures of bundles. See docs/signatures.md.');

const pipelineSettings = {
  max_waiting: amount()
    .description(
      'Maximum uploads and runs of the pipeline being received or waiting: a number, or a percentage of queue_size, rounded down, at least 1. Default: queue_size, or three quarters of it with several pipelines.',
    )
    .example('50%'),
  retry_for: duration({ atLeast: '0s', atMost: '7d' })
    .description('How long a run that failed for a temporary cause is retried. Default: server.retry_for.')
    .example('2h'),
  while_retrying: choice('pass', 'wait')
    .default('pass')
    .description(
      'Later runs pass a run that waits for its retry, or wait behind it. A newer upload of the same bundle path always replaces it. Pipelines with both fixed and other destinations always wait.',
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
        'Severity of broken content rules (order, gaps, overlaps, …). warning: the bundle is published. error: it is invalid.',
      ),
  })
    .default()
    .description('Checks of scene maps.'),
  signatures,
};

/** The settings of a pipeline, apart from its source and destinations. */
export const pipelineMap = map(pipelineSettings);

const pipeline = map({
  id: id()
    .required()
    .description('Name of the pipeline. After a rename, the published files no longer belong to it.')
    .example('maps'),
  source: sourceSchema.required(),
  destinations: list(destinationSchema, {
    min: 1,
    expected: 'a list such as [{id: web, backend: local, path: /srv/www}]',
  })
    .required()
    .description('Destinations. If one fails, the others are still attempted.'),
  ...pipelineSettings,
});

export const configSchema = map({
  secrets: secrets.default(),
  trusted_directories: list(path(), { min: 0, expected: 'a list of directories' })
    .default([])
    .description(
      'Directories trusted with everything in them. Elsewhere, a directory, key file or secret that another user can change is refused at startup. See docs/operations.md.',
    )
    .example(['/mnt/shared']),
  upload_tokens: list(uploadToken, { min: 0, expected: 'a list of upload tokens' })
    .default([])
    .description('Tokens of producers and administrators.'),
  trusted_publishers: list(trustedPublisher, { min: 0, expected: 'a list of trusted publishers' })
    .default([])
    .description('CI jobs that upload without a stored secret. See docs/how-to/ci-without-secrets.md.'),
  server: serverSchema.default(),
  log: logSchema.default(),
  tracing: tracingSchema,
  audit: auditSchema,
  pipelines: list(pipeline, { min: 0, expected: 'a list of pipelines' })
    .default([])
    .description('A pipeline connects one source to its destinations.'),
  notifiers: list(notifier, { min: 0, expected: 'a list of notifiers' })
    .default([])
    .description('Receivers of events. See docs/events.md and docs/notifications.md.'),
  databases,
  templates: templates.default(),
  weather: weather.default(),
}).description(
  'Configuration of waybill. Unknown keys are refused. Durations: 500ms 30s 15m 24h 7d. Sizes: 512MiB 2GB 10KiB or whole bytes.',
);

/** A document that the schema accepted. Names and units are as in the file, and defaults are filled in. */
export type ConfigDocument = AcceptedBy<typeof configSchema>;
export type PipelineDocument = ConfigDocument['pipelines'][number];
