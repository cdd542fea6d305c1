import {
  basePath,
  boolean,
  duration,
  environmentName,
  host,
  integer,
  list,
  listen,
  map,
  origin,
  proxyRange,
  size,
} from '../../lib/settings/kinds.ts';
import { loginSchema } from './console-login.ts';
import { defaultKeep, queueSchema, stagingSchema } from './staging.ts';

export const consoleSchema = map({
  enabled: boolean().default(true).description('Serves the console at /console, below the base path.'),
  session: duration({ atLeast: '1m', atMost: '30d' }).default('12h').description('Lifetime of a session.'),
  session_key_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the secret that encrypts session cookies: at least 32 characters, the same on all API hosts. Without it, a restart ends all sessions.',
    )
    .example('WAYBILL_SESSION_KEY'),
  login: loginSchema,
}).description('The console. See docs/console.md.');

export const metricsSchema = map({
  enabled: boolean().default(true).description('Serves GET /metrics in the Prometheus text format.'),
  token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the bearer token that GET /metrics requires.',
    )
    .example('WAYBILL_METRICS_TOKEN'),
}).description('Metrics of the daemon.');

const cors = map({
  origins: list(origin(), { min: 1, expected: 'a list of origins, at least one' })
    .required()
    .description('Origins whose pages may read responses, or "*" for any.')
    .example(['https://maps.example.org']),
}).description('Cross-origin access (CORS), without cookies.');

export const http = map({
  listen: listen()
    .default('127.0.0.1:8080')
    .description(
      'Address of the HTTP API; IPv6 in brackets. Port 0 selects a free port. A socket passed by systemd takes precedence.',
    ),
  base_path: basePath()
    .default('/')
    .description('Path prefix of the API behind a reverse proxy.')
    .example('/waybill/'),
  trusted_proxies: list(proxyRange(), {
    min: 0,
    expected: 'a list of addresses, CIDR ranges, or loopback, linklocal, uniquelocal',
  })
    .default(['loopback'])
    .description(
      'Proxies whose X-Forwarded-* headers are trusted: addresses, CIDR ranges, loopback, linklocal, uniquelocal.',
    ),
  allowed_hosts: list(host('alone'), { min: 1, expected: 'a list of host names, at least one' })
    .description(
      'Accepted Host headers. Other names get 421 host_not_allowed; IP addresses and localhost are always accepted. Default: every name. Set it against DNS rebinding if browsers reach the daemon directly.',
    )
    .example(['publish.example.org']),
  retention: duration({ atLeast: '1s', atMost: '366d' })
    .default('24h')
    .description('How long the record of a finished run is kept, with its idempotency key and bundle.'),
  queue_size: integer(1, 100_000).default(32).description('Maximum uploads being staged or waiting.'),
  max_concurrency: integer(1, 256)
    .default(2)
    .description('Maximum concurrent runs, each of a different pipeline.'),
  upload_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('30m')
    .description(
      'Time limit for the body of an upload. Other bodies have one minute, and 30 seconds without a token.',
    ),
  idle_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('60s')
    .description('Maximum pause within a body.'),
  max_connections: integer(1, 1_000_000)
    .default(2000)
    .description('Maximum open connections. The next one is closed.'),
  max_streams: integer(0, 1_000_000).default(1000).description('Maximum open event streams.'),
  max_streams_per_client: integer(1, 1_000_000)
    .default(250)
    .description('Maximum event streams per token or, without a token, per client address.'),
  max_uploads_per_token: integer(1, 100_000)
    .description(
      'Maximum concurrent uploads per token. Default: with several upload_tokens, half of queue_size.',
    )
    .example(16),
  max_body_memory: size({ atLeast: 16 * 1024 * 1024 })
    .default('64MiB')
    .description(
      'Total memory for request bodies with a token, half of it per token. Bodies without a token share a quarter as much, at least 16 MiB, half of it per client address. Uploads and routes with at most 16 KiB do not count.',
    ),
  shutdown_timeout: duration({ atLeast: '0s', atMost: '24d' })
    .default('30s')
    .description('How long runs may continue after a stop signal before they are aborted.'),
  protect_runs: boolean()
    .default(false)
    .description(
      'Requires a token of the pipeline on GET /runs/{run_id}. Otherwise the random run id is enough.',
    ),
  protect_scene_maps: boolean()
    .default(false)
    .description('Requires a token of upload_tokens on POST /v1/scene-maps/validate.'),
  cors,
}).description('The HTTP API of the daemon.');

const rerun = map({
  keep_for: duration({ atLeast: '0s', atMost: '366d' })
    .description(
      'How long the bundle of a finished run is kept. Default and maximum: http.retention. 0s keeps none.',
    )
    .example('24h'),
  max_bundles: integer(0, 100_000)
    .description('Maximum kept bundles. The oldest are removed first.')
    .example(100),
  max_bytes: size({ atLeast: 0 }).description('Maximum total size of kept bundles.').example('10GiB'),
}).description('Bundles of finished runs, except cancelled ones, kept so that runs can be repeated.');

export const resumable = map({
  max_uploads: integer(0, 100_000)
    .default(32)
    .description('Maximum partial uploads. 0 disables resumable uploads.'),
  max_bytes: size({ atLeast: 1 })
    .description('Maximum total size of partial uploads, each counted with its full size.')
    .example('20GiB'),
  max_uploads_per_token: integer(1, 100_000)
    .description(
      'Maximum partial uploads per token. Default: with several upload_tokens, half of max_uploads.',
    )
    .example(16),
  max_bytes_per_token: size({ atLeast: 1 })
    .description(
      'Maximum total size of the partial uploads of a token. A single upload may be larger. Default: with several upload_tokens, half of max_bytes.',
    )
    .example('10GiB'),
  retention: duration({ atLeast: '1s', atMost: '366d' })
    .default('24h')
    .description('How long a partial upload is kept after its last byte.'),
}).description('Resumable uploads (tus 1.0). Their bytes are on the disk of this machine.');

export const worker = map({
  listen: listen()
    .description(
      'Address for GET /healthz, /readyz, /livez and /metrics. --listen takes precedence. Default: none.',
    )
    .example('127.0.0.1:9090'),
}).description('The program waybill worker needs driver: bullmq.');

export const serverSchema = map({
  http: http.default(),
  metrics: metricsSchema.default(),
  console: consoleSchema.default(),
  retry_for: duration({ atLeast: '0s', atMost: '7d' })
    .default('30m')
    .description('How long a run that failed for a temporary cause is retried, from its first try.'),
  run_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('12h')
    .description('Time limit for one attempt of a run, also of waybill run. Such a run is not retried.'),
  discovery_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('1h')
    .description(
      'Time limit for reading a source: listing, manifests and, with manifest: auto, changed files. Such a run is not retried.',
    ),
  rerun: rerun.default(),
  resumable: resumable.default(),
  worker: worker.default(),
  staging: stagingSchema
    .default({ backend: 'local', directory: './staging', keep: defaultKeep })
    .description('Storage of uploads until they are published.'),
  queue: queueSchema.default({ driver: 'memory' }).description('Queue of accepted uploads.'),
  admin_token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the admin token: it reloads the configuration and controls all pipelines.',
    )
    .example('WAYBILL_ADMIN_TOKEN'),
  token_keys_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the key of the tokens for trusted_publishers: at least 32 characters, the same on all API hosts. With two keys separated by white space, the first signs and both are accepted. Without it, a restart ends the tokens.',
    )
    .example('WAYBILL_TOKEN_KEYS'),
}).description('The daemon (waybill serve).');
