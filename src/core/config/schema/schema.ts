import { logLevels, requestLoggings } from '../../lib/log.ts';
import * as kinds from '../../lib/settings/kinds.ts';
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
  variants,
} from '../../lib/settings/kinds.ts';
import type { AcceptedBy, DocumentOf, Setting } from '../../lib/settings/setting.ts';
import { subscribableTypes } from '../../notify/event.ts';
import { allSinkKinds, type AnySinkKind, type SinkDocument } from '../../notify/sink-kinds.ts';
import { parsePublicKey } from '../../signing/public-key.ts';
import { parseCron, parseTimeZone } from '../timetable.ts';
import { databases } from '../weather/databases.ts';
import { templates, weather } from '../weather/settings.ts';
import { destinationSchema, sourceSchema } from './locations.ts';
import { serverSchema } from './server.ts';

/*
 * The settings of the configuration file: their names, forms, ranges, defaults and descriptions. The types of
 * documents, the JSON Schema for editors and the reference in `docs/configuration.md` derive from them.
 * `relations.ts` checks combinations of settings.
 */

/** The rights of an upload token for its pipelines. */
export const scopes = ['upload', 'run', 'cancel', 'releases', 'read'] as const;
export type Scope = (typeof scopes)[number];

/** Settings that start runs automatically. `pipeline-relations.ts` checks their combinations. */
const scheduleSettings = {
  schedule: text(
    'five fields of cron (minute, hour, day of month, month, day of week) such as "*/15 * * * *", or @hourly, @daily, @weekly, @monthly or @yearly',
    'cron pattern',
    parseCron,
  )
    .description(
      'When runs of this pipeline start by themselves, if it has a source of its own: a pattern of cron. See docs/schedules.md.',
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
      'What becomes of ticks that nobody could start, because all daemons were down: nothing, or one run for all of them together.',
    ),
  jitter: duration({ atLeast: '0s', atMost: '1h' })
    .default('0s')
    .description(
      'By how much, at most, a run begins later than its tick, so that not all of them begin at once: drawn for each tick, the same on every host, and never later than the next tick.',
    )
    .example('30s'),
  watch: boolean()
    .default(false)
    .description(
      'Whether a change of the source starts a run, if the source is a directory of this machine.',
    ),
  settle: duration({ atLeast: '100ms', atMost: '1h' })
    .default('2s')
    .description('How long a source that is watched must be quiet before the run starts.')
    .example('10s'),
};

/** `log`. */
const logSchema = map({
  level: choice(...logLevels)
    .default('info')
    .description(
      'Least level of the lines that are logged. --verbose means debug at least. At warn and above the lines of notifiers of kind log are not shown either.',
    ),
  requests: choice(...requestLoggings)
    .default('all')
    .description(
      'Which requests are logged: all, errors (answered with 400 or above, or left by the client) or none. Probes (/healthz, /readyz, /livez, /metrics) that succeed are logged at level debug. A request that fails by a defect of waybill is logged in any case.',
    ),
}).description('The log of waybill serve, worker and weather. Other commands log with --verbose only.');

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

/** The part `notifiers` of the configuration. */
const common = {
  id: id().required().description('Name of the notifier, for logs and warnings.').example('hook'),
  events: list(choice(...subscribableTypes), {
    min: 1,
    expected: `a list of ${subscribableTypes.join(', ')}, at least one`,
  })
    .default(['bundle.published'])
    .description('Which events the notifier is told of.'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' }).description(
    'Only what these pipelines do; without it, what all of them do.',
  ),
};

export type NotifierDocument = DocumentOf<typeof common> & SinkDocument;

const notifierSchema = variants(
  'kind',
  'a notifier',
  Object.fromEntries(allSinkKinds.map((sink) => [sink.kind, settingOf(sink)])),
) as Setting<NotifierDocument, false>;

function settingOf(sink: AnySinkKind): Setting {
  const kind = choice(sink.kind).required().description(sink.summary);
  const check = (value: object): ReturnType<AnySinkKind['fault']> => sink.fault(value as SinkDocument);
  return map({ ...common, kind, ...sink.settings(kinds) }, { check });
}

export const secrets = map({
  directory: path()
    .description(
      'Directory of secret files: each is named like an environment variable and holds its value. The real environment wins over a file. Without it, the credentials that systemd gives the service (LoadCredential), if any.',
    )
    .example('./secrets'),
}).description('Where secret values come from besides the environment.');

export const uploadToken = map({
  id: id()
    .required()
    .description('Name of the token, for logs and for the scope of idempotency keys; it is not the secret.')
    .example('ci'),
  value_env: environmentName()
    .required()
    .description(
      'Environment variable, or file in secrets.directory, that holds the value of the token, or sha256: and the 64 hexadecimal digits of its SHA-256, so that this machine does not know it. The value itself never stands here.',
    )
    .example('WAYBILL_TOKEN_CI'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' })
    .required()
    .description(
      'Ids of the pipelines that the token may upload to, or, where they have a source of their own, may start; it also lists their runs.',
    ),
  scopes: list(choice(...scopes), { min: 1, expected: `a list of some of ${scopes.join(', ')}` })
    .default([...scopes])
    .description(
      'What the token may do with its pipelines: upload bundles, start a run (run), cancel runs, give readers another release (releases), or read lists of runs and releases and records of runs, and follow runs.',
    )
    .example(['read']),
  expires: instant()
    .description('From when on the token is refused with 401 token_expired. Without it, it does not expire.')
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

/** `signatures` of a pipeline. */
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
      'How many uploads and runs of this pipeline may be received or wait at once, so that one producer cannot fill the queue for all: a number, or a share of server.http.queue_size, rounded down, 1 at least. One more is answered with 429 pipeline_full. Left out, it is three quarters of queue_size where there are several pipelines, and queue_size for a single one.',
    )
    .example('50%'),
  retry_for: duration({ atLeast: '0s', atMost: '7d' })
    .description(
      'How long a run that failed for a passing cause is tried again, from its first failure on. 0s: a failed run is not tried again. Without it, server.retry_for.',
    )
    .example('2h'),
  while_retrying: choice('pass', 'wait')
    .default('pass')
    .description(
      'Order of later runs of the pipeline while a run waits for its next try: they pass it, or wait behind it. A newer upload of the same bundle path replaces the waiting run in both cases. Later runs always wait if the pipeline has fixed and other destinations.',
    ),
  run_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .description('Longest time of one try of a run. Without it, server.run_timeout.')
    .example('2h'),
  discovery_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .description('Longest time that reading the source may take. Without it, server.discovery_timeout.')
    .example('10m'),
  ...scheduleSettings,
  scene_maps: map({
    content_rules: choice('warning', 'error')
      .default('warning')
      .description(
        'What a scene map that breaks a rule of content (order, gaps, overlaps, …) does: a warning, or the bundle is invalid.',
      ),
  })
    .default()
    .description('How scene maps in bundles are judged.'),
  signatures,
};

/** The settings of a pipeline except its source and destinations. */
export const pipelineMap = map(pipelineSettings);

const pipeline = map({
  id: id()
    .required()
    .description(
      'Name of the pipeline, in URLs, on the command line and in catalogs: renaming it disowns what was published.',
    )
    .example('maps'),
  source: sourceSchema.required(),
  destinations: list(destinationSchema, { min: 1, expected: 'a list of destinations, at least one' })
    .required()
    .description(
      'Where the bundles go. Destinations are independent: when one fails, the others are still attempted.',
    ),
  ...pipelineSettings,
});

export const configSchema = map({
  secrets: secrets.default(),
  trusted_directories: list(path(), { min: 0, expected: 'a list of directories' })
    .default([])
    .description(
      'Directories that are trusted with everything in them, whatever their owners and modes. Any other source, destination, staging or queue directory, key file or secret is refused at the start if another user could change it. See docs/operations.md.',
    )
    .example(['/mnt/shared']),
  upload_tokens: list(uploadToken, { min: 0, expected: 'a list of upload tokens' })
    .default([])
    .description('Tokens that producers upload with, and that operators start runs with.'),
  server: serverSchema.default(),
  log: logSchema.default(),
  tracing: tracingSchema,
  pipelines: list(pipeline, { min: 0, expected: 'a list of pipelines' })
    .default([])
    .description('What is published: each pipeline connects one source to one or more destinations.'),
  notifiers: list(notifierSchema, { min: 0, expected: 'a list of notifiers' })
    .default([])
    .description('Who is told of publications, after they are committed. See docs/events.md.'),
  databases,
  templates: templates.default(),
  weather: weather.default(),
}).description(
  'Configuration of waybill. Unknown keys are refused. Durations: 500ms 30s 15m 24h 7d. Sizes: 512MiB 2GB 10KiB or whole bytes.',
);

/** The accepted document: names and units of the file, with all defaults. */
export type ConfigDocument = AcceptedBy<typeof configSchema>;
export type PipelineDocument = ConfigDocument['pipelines'][number];
