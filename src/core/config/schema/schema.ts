import type { ConfigDocument } from '../document.ts';
import { scopes } from '../scopes.ts';
import { notifierSchema } from './notifiers.ts';
import { destinationSchema, sourceSchema } from './locations.ts';
import { logSchema } from './log.ts';
import { scheduleSettings } from './schedule.ts';
import { serverSchema } from './server.ts';
import { tracingSchema } from './tracing.ts';
import { databases } from '../weather/databases.ts';
import { templates, weather } from '../weather/settings.ts';
import {
  amount,
  choice,
  duration,
  environmentName,
  id,
  instant,
  list,
  map,
  path,
} from '../../lib/settings/kinds.ts';

/**
 * The YAML of the configuration, setting by setting: the one place that knows names, forms, ranges and
 * defaults. The JSON Schema for editors and the reference in `docs/configuration.md` are made from it. What
 * concerns several settings at once is in `relations.ts`. The descriptions are shown by editors.
 */
const secrets = map({
  directory: path()
    .description(
      'Directory of secret files: each is named like an environment variable and holds its value. The real environment wins over a file. Without it, the credentials that systemd gives the service (LoadCredential), if any.',
    )
    .example('./secrets'),
}).description('Where secret values come from besides the environment.');

const uploadToken = map({
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
});

export const configSchema = map<ConfigDocument>({
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
