import type joi from 'joi';
import type { ConfigDocument, DestinationDocument, SourceDocument } from './document.ts';
import { metricsSchema } from './schema-metrics.ts';
import { notifierSchema } from './schema-notifiers.ts';
import { queueSchema } from './schema-queue.ts';
import { stagingSchema } from './schema-staging.ts';
import { databases, templates, weather } from './schema-weather.ts';
import {
  basePath,
  baseUrl,
  boolean,
  cacheControl,
  choice,
  duration,
  endpoint,
  environmentName,
  host,
  id,
  integer,
  list,
  listen,
  map,
  matching,
  path,
  prefix,
  proxyRange,
  remotePath,
  size,
  variants,
} from '../settings/kinds.ts';

/**
 * The YAML of the configuration, setting by setting: the one place that knows names, forms, ranges and
 * defaults. The JSON Schema for editors and the reference in `docs/configuration.md` are made from it. What
 * concerns several settings at once is in `relations.ts`. The descriptions are shown by editors.
 */
const secrets = map({
  directory: path()
    .description(
      'Directory of secret files: each is named like an environment variable and holds its value. The real environment wins over a file.',
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
      'Environment variable, or file in secrets.directory, that holds the value of the token. The value itself never stands here.',
    )
    .example('WAYBILL_TOKEN_CI'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' })
    .required()
    .description(
      'Ids of the pipelines that the token may upload to, or, where they have a source of their own, may start; it also lists their runs.',
    ),
});

const http = map({
  listen: listen()
    .default('127.0.0.1:8080')
    .description(
      'Address and port of the HTTP API, an IPv6 address in brackets. Port 0 takes any free one. TLS and rate limits belong in a proxy before it.',
    ),
  base_path: basePath()
    .default('/')
    .description('Path under which the API answers, for a reverse proxy that passes on a prefix.')
    .example('/waybill/'),
  trusted_proxies: list(proxyRange(), {
    min: 0,
    expected: 'a list of addresses, CIDR ranges, or loopback, linklocal, uniquelocal',
  })
    .default(['loopback'])
    .description(
      'Proxies whose X-Forwarded-* headers are believed: addresses, CIDR ranges, or loopback, linklocal, uniquelocal. An empty list believes none.',
    ),
  retention: duration({ atLeast: '1s', atMost: '366d' })
    .default('24h')
    .description(
      'How long the record of a completed run is kept, and with it its idempotency key and its staged bundle.',
    ),
  queue_size: integer(1, 100_000)
    .default(32)
    .description('Uploads that may be staged or wait at once; one more is answered with 503 queue_full.'),
  max_concurrency: integer(1, 256)
    .default(2)
    .description('Publications of uploads that run at once, each of another pipeline.'),
  upload_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('30m')
    .description('Longest time that the body of one upload may take.'),
  idle_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('60s')
    .description('Longest pause between two pieces of an upload.'),
  shutdown_timeout: duration({ atLeast: '0s', atMost: '24d' })
    .default('30s')
    .description(
      'How long running publications may go on after the daemon was told to stop; then they are aborted, which is safe.',
    ),
  protect_runs: boolean()
    .default(false)
    .description(
      'Asks for an upload token of the pipeline on GET /runs/{run_id}. Otherwise whoever knows the random run id may read the record.',
    ),
}).description('The HTTP API of the daemon.');

const local = {
  path: path()
    .required()
    .description('Directory; relative to the configuration file, "~/" is your home.')
    .example('./public'),
};

const sftp = {
  host: host().required().description('Name or address of the SFTP server.').example('sftp.example.org'),
  port: integer(1, 65_535).default(22).description('Port of the SFTP server.'),
  user: matching(/^[^\s:@\u0000-\u001f\u007f]{1,255}$/, 'a user name')
    .required()
    .description('User to log in as.')
    .example('publisher'),
  path: remotePath()
    .required()
    .description('Directory on the server; a relative one begins at the login directory.')
    .example('/srv/maps'),
  ssh_key_file: path()
    .description(
      'Private key file. An SSH agent, where there is one, is asked first. Passwords are not supported.',
    )
    .example('~/.ssh/id_ed25519'),
  ssh_key_passphrase_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the passphrase of the private key.',
    )
    .example('DEPLOY_KEY_PASSPHRASE'),
  ssh_agent_socket: path()
    .description('Socket of the SSH agent. Without it: the one that SSH_AUTH_SOCK names, where that is set.')
    .example('/run/user/1000/ssh-agent.socket'),
  host_key_policy: choice('strict', 'accept-new', 'off')
    .default('accept-new')
    .description(
      'What to do with host keys: strict takes known ones only, accept-new also remembers those of unknown hosts, off does not check at all (unsafe).',
    ),
  known_hosts_file: path()
    .default('~/.ssh/known_hosts')
    .description('File of known host keys, in the form of OpenSSH.'),
  max_requests: integer(1, 1024)
    .default(64)
    .description('Requests in flight on one connection; 1 for servers that bear no more.'),
};

const s3 = {
  bucket: matching(/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,255}$/, 'the name of a bucket: letters, digits and . _ -')
    .required()
    .description('Bucket of the S3-compatible storage.')
    .example('maps'),
  prefix: prefix()
    .default('')
    .description(
      'What every key begins with, as a directory would; the closing "/" is added where it is missing.',
    )
    .example('live/'),
  endpoint: endpoint()
    .description('URL of the S3-compatible server; without it, AWS.')
    .example('https://s3.example.org'),
  region: matching(/^[A-Za-z0-9._-]{1,64}$/, 'the name of a region, such as eu-central-1')
    .description(
      'Region of the bucket; without it, the one that the default configuration of the S3 client gives.',
    )
    .example('eu-central-1'),
  path_style: boolean().description(
    'Names the bucket in the path of the URL and not in its host. Default: true where endpoint is set, else false.',
  ),
  access_key_id_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the access key id. Without the two, the default credential chain of the S3 client is used.',
    )
    .example('MAPS_KEY'),
  secret_access_key_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the secret access key; set together with access_key_id_env.',
    )
    .example('MAPS_SECRET'),
};

const localBackend = { backend: choice('local').required().description('A directory of this machine.') };
const sftpBackend = {
  backend: choice('sftp').required().description('A directory of an SSH server, over SFTP.'),
};
const s3Backend = { backend: choice('s3').required().description('A bucket of an S3-compatible storage.') };

const server = map({
  http: http.default(),
  metrics: metricsSchema.default(),
  staging: stagingSchema({
    sftp: map({ ...sftpBackend, ...sftp }),
    s3: map({ ...s3Backend, ...s3 }).and('access_key_id_env', 'secret_access_key_env'),
  })
    .default({ backend: 'local', directory: './staging' })
    .description('Where uploads wait until they are published.'),
  queue: queueSchema
    .default({ driver: 'memory' })
    .description('Where accepted uploads wait: in this process, or in Redis.'),
  admin_token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the token for admin/queues, the board of the queues in bullmq mode. Without it there is no board.',
    )
    .example('WAYBILL_ADMIN_TOKEN'),
}).description('The daemon (waybill serve).');

export const sourceSchema = variants<SourceDocument>('backend', 'a source', {
  local: map({ ...localBackend, ...local }),
  sftp: map({ ...sftpBackend, ...sftp }),
  s3: map({ ...s3Backend, ...s3 }).and('access_key_id_env', 'secret_access_key_env'),
  http_upload: map({
    backend: choice('http_upload')
      .required()
      .description('Bundles that producers push over HTTP to the daemon.'),
    max_upload_size: size({ atLeast: 1 })
      .default('512MiB')
      .description('Largest archive that is taken, and largest bundle that it may hold when extracted.'),
    max_files: integer(1, 1_000_000)
      .default(10_000)
      .description('Most files that an uploaded bundle may hold.'),
  }),
}).description('Where the bundles of the pipeline come from.');

const prune = map({
  enabled: boolean()
    .default(false)
    .description('Allows waybill prune on this destination. Nothing is ever pruned by a publication itself.'),
  keep_latest: integer(0, 1_000_000_000)
    .description('How many of the newest managed outputs always stay.')
    .example(20),
  older_than: duration({ atLeast: '0s', atMost: '36500d' })
    .description('Only outputs that were published longer ago than this are pruned.')
    .example('90d'),
})
  .custom((value: { enabled: boolean; keep_latest?: number; older_than?: string }, helpers) =>
    value.enabled && value.keep_latest === undefined && value.older_than === undefined
      ? helpers.error('waybill.reason', {
          reason: 'pruning is enabled and nothing says what stays',
          expected: 'keep_latest, older_than or both beside "enabled: true"',
        })
      : value,
  )
  .description(
    'What waybill prune may remove. With both limits the newest keep_latest stay, whatever their age.',
  );

const destinationId = id()
  .required()
  .description(
    'Name of the destination, unique within the pipeline. It is part of the owner that the catalog records: renaming it disowns what was published.',
  )
  .example('web');

const destination = {
  mapping: choice('preserve_relative', 'fixed')
    .default('preserve_relative')
    .description(
      'Where bundles land: each at its path relative to the source root, or only the newest one (by "created") at the root of the destination.',
    ),
  workflow: choice('additive', 'replacement')
    .default('additive')
    .description(
      'What happens to published outputs that a new plan omits: additive keeps them, replacement removes those of this owner.',
    ),
  public_base_url: baseUrl()
    .description(
      'URL under which the root of the destination is reachable; each output then carries its own URL.',
    )
    .example('https://maps.example.org/'),
  cache_control: cacheControl()
    .description('Cache-Control recorded for every output; S3 serves it as a header.')
    .example('public, max-age=60'),
  outputs: map({
    checksums: boolean().default(false).description('Adds SHA256SUMS, which "sha256sum -c" verifies.'),
    archive: boolean().default(false).description('Adds a reproducible tar.gz of the bundle.'),
    index: boolean().default(false).description('Adds an HTML page that lists the files.'),
    scene_map_page: boolean().default(false).description('Adds an HTML page for each scene map.'),
  })
    .default()
    .description('Generated outputs that are published beside the files of the bundle.'),
  retention: map({ prune: prune.default() }).default().description('How long published outputs are kept.'),
  file_concurrency: integer(1, 64).description(
    'Files that are written side by side; left out, 8, and 32 where the destination is S3, which answers each file by itself.',
  ),
};

export const destinationSchema = variants<DestinationDocument>('backend', 'a destination', {
  local: map({ id: destinationId, ...localBackend, ...local, ...destination }),
  sftp: map({ id: destinationId, ...sftpBackend, ...sftp, ...destination }),
  s3: map({
    id: destinationId,
    ...s3Backend,
    ...s3,
    allow_bucket_root: boolean()
      .default(false)
      .description(
        'Allows a forced replacement at the root of a bucket, which empties the whole bucket. Without a prefix and without this it is refused.',
      ),
    ...destination,
  }).and('access_key_id_env', 'secret_access_key_env'),
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
  upload_tokens: list(uploadToken, { min: 0, expected: 'a list of upload tokens' })
    .default([])
    .description('Tokens that producers upload with, and that operators start runs with.'),
  server: server.default(),
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

/** Nothing is converted (`"8080"` is no number), and everything that is wrong is told at once. */
/** Every failure's message is the label of the schema that failed, which says what was expected there. */
export const validationOptions: joi.ValidationOptions = {
  abortEarly: false,
  convert: false,
  messages: { '*': '{#label}' },
  errors: { wrap: { label: false } },
};
