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

/** The `server.console` section of the configuration. */
export const consoleSchema = map({
  enabled: boolean().default(true).description('Serves the console at /console, below the base path.'),
  session: duration({ atLeast: '1m', atMost: '30d' })
    .default('12h')
    .description('Lifetime of a console session. A session ends earlier if its token expires or is removed.'),
  session_key_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the secret that encrypts session cookies: at least 32 characters. Without it, a restart ends all sessions. All API hosts need the same secret.',
    )
    .example('WAYBILL_SESSION_KEY'),
  login: loginSchema,
}).description(
  'Pages on which operators follow and control runs. Users log in with a token of upload_tokens, the admin token, or an account of an OpenID Connect issuer.',
);

/** The `server.metrics` section of the configuration. */
export const metricsSchema = map({
  enabled: boolean().default(true).description('Serves GET /metrics in the Prometheus text format.'),
  token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the bearer token that GET /metrics requires. Without it, none is required.',
    )
    .example('WAYBILL_METRICS_TOKEN'),
}).description('Metrics of the daemon, labeled with the ids of this configuration.');

const cors = map({
  origins: list(origin(), { min: 1, expected: 'a list of origins, at least one' })
    .required()
    .description(
      'Origins whose pages may read responses, as browsers send them: https://app.example.org, without a path. "*" allows any origin.',
    )
    .example(['https://maps.example.org']),
}).description(
  'Cross-origin access (CORS). Without it, pages of other origins cannot read responses. Cookies are never allowed.',
);

export const http = map({
  listen: listen()
    .default('127.0.0.1:8080')
    .description(
      'Address and port of the HTTP API, with an IPv6 address in brackets. Port 0 selects a free port. TLS and rate limits belong in a proxy. A socket passed by systemd takes precedence.',
    ),
  base_path: basePath()
    .default('/')
    .description('Path prefix of the API, for a reverse proxy that forwards a prefix.')
    .example('/waybill/'),
  trusted_proxies: list(proxyRange(), {
    min: 0,
    expected: 'a list of addresses, CIDR ranges, or loopback, linklocal, uniquelocal',
  })
    .default(['loopback'])
    .description(
      'Proxies whose X-Forwarded-* headers are trusted: addresses, CIDR ranges, or loopback, linklocal, uniquelocal. An empty list trusts none.',
    ),
  allowed_hosts: list(host(), { min: 1, expected: 'a list of host names, at least one' })
    .description(
      'Host names that the Host header may contain. Any other name gets 421 host_not_allowed. IP addresses and localhost are always allowed. Without it, every name is allowed. Set it against DNS rebinding if browsers can reach the daemon without a proxy that checks the name.',
    )
    .example(['publish.example.org']),
  retention: duration({ atLeast: '1s', atMost: '366d' })
    .default('24h')
    .description(
      'How long the record of a finished run is kept, with its idempotency key and its staged bundle.',
    ),
  queue_size: integer(1, 100_000)
    .default(32)
    .description(
      'Maximum number of uploads that are being staged or waiting. The next one gets 503 queue_full.',
    ),
  max_concurrency: integer(1, 256)
    .default(2)
    .description('Maximum number of concurrent runs, each of a different pipeline.'),
  upload_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('30m')
    .description(
      'Time limit for the body of one upload. Other bodies have one minute; bodies without a token have 30 seconds.',
    ),
  idle_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('60s')
    .description('Maximum pause between two parts of a body.'),
  max_connections: integer(1, 1_000_000)
    .default(2000)
    .description('Maximum number of open connections. The next one is closed immediately.'),
  max_streams: integer(0, 1_000_000)
    .default(1000)
    .description(
      'Maximum number of open event streams. The next one gets 503 too_many_streams. Each stream counts towards max_connections.',
    ),
  max_streams_per_client: integer(1, 1_000_000)
    .default(250)
    .description(
      'Maximum number of open event streams per token, or per client address without a token. The next one gets 429 quota_exceeded.',
    ),
  max_uploads_per_token: integer(1, 100_000)
    .description(
      'Maximum number of archives that one token may send concurrently. The next one gets 429 quota_exceeded. Default: half of queue_size if there are several upload_tokens.',
    )
    .example(16),
  max_body_memory: size({ atLeast: 16 * 1024 * 1024 })
    .default('64MiB')
    .description(
      'Total memory for request bodies with a token. One token may use half of it. Bodies without a token share a quarter as much, at least 16 MiB. One client address may use half of that. Uploads do not count, nor do forms and JSON of routes that accept at most 16 KiB. Requests beyond the limit get 503 server_busy.',
    ),
  shutdown_timeout: duration({ atLeast: '0s', atMost: '24d' })
    .default('30s')
    .description('How long running publications may continue after a stop signal. Then they are aborted.'),
  protect_runs: boolean()
    .default(false)
    .description(
      'Requires an upload token of the pipeline on GET /runs/{run_id}. Otherwise the random run id is sufficient.',
    ),
  protect_scene_maps: boolean()
    .default(false)
    .description('Requires a token of upload_tokens on POST /v1/scene-maps/validate.'),
  cors,
}).description('The HTTP API of the daemon.');

const rerun = map({
  keep_for: duration({ atLeast: '0s', atMost: '366d' })
    .description(
      'How long the bundle of a finished run stays staged. Default: as long as its record (http.retention), which is also the maximum. 0s keeps no bundle.',
    )
    .example('24h'),
  max_bundles: integer(0, 100_000)
    .description('Maximum number of kept bundles. The oldest are removed first.')
    .example(100),
  max_bytes: size({ atLeast: 0 })
    .description('Maximum total size of kept bundles. The oldest are removed first.')
    .example('10GiB'),
}).description(
  'Bundles of finished runs, kept so that runs can be repeated. Bundles of cancelled runs are removed immediately.',
);

export const resumable = map({
  max_uploads: integer(0, 100_000)
    .default(32)
    .description(
      'Maximum number of partial uploads. The next one gets 503 partial_uploads_full. 0 disables resumable uploads: their paths answer 404.',
    ),
  max_bytes: size({ atLeast: 1 })
    .description('Maximum total size of partial uploads. Each counts with the full size of its archive.')
    .example('20GiB'),
  max_uploads_per_token: integer(1, 100_000)
    .description(
      'Maximum number of partial uploads per token. The next one gets 429 quota_exceeded. Default: half of max_uploads if there are several upload_tokens.',
    )
    .example(16),
  max_bytes_per_token: size({ atLeast: 1 })
    .description(
      'Maximum total size of the partial uploads of one token. A single upload may be larger. Default: half of max_bytes if there are several upload_tokens.',
    )
    .example('10GiB'),
  retention: duration({ atLeast: '1s', atMost: '366d' })
    .default('24h')
    .description('How long a partial upload is kept after its last byte, including across restarts.'),
}).description(
  'Resumable uploads (tus 1.0). Received bytes are kept in staging, on the disk of this machine.',
);

export const worker = map({
  listen: listen()
    .description(
      'Address and port of GET /healthz, /readyz, /livez and /metrics. Without it, a worker does not listen. The --listen option takes precedence.',
    )
    .example('127.0.0.1:9090'),
}).description('Workers without an API (waybill worker), which need server.queue: {driver: bullmq}.');

/** The `server` section of the configuration. */
export const serverSchema = map({
  http: http.default(),
  metrics: metricsSchema.default(),
  console: consoleSchema.default(),
  retry_for: duration({ atLeast: '0s', atMost: '7d' })
    .default('30m')
    .description(
      'How long a run that failed for a temporary cause (unreachable storage, busy destination) is retried, counted from its first failure. 0s disables retries.',
    ),
  run_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('12h')
    .description(
      'Time limit for one attempt of a run, in the daemon and in `waybill run`. A run that takes longer fails with run_timeout and is not retried.',
    ),
  discovery_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('1h')
    .description(
      'Time limit for reading a source: its listing, its manifests and, with manifest: auto, changed files. A run whose source takes longer fails with discovery_timeout and is not retried.',
    ),
  rerun: rerun.default(),
  resumable: resumable.default(),
  worker: worker.default(),
  staging: stagingSchema
    .default({ backend: 'local', directory: './staging', keep: defaultKeep })
    .description('Staging: the storage of uploads until they are published.'),
  queue: queueSchema
    .default({ driver: 'memory' })
    .description('Queue of accepted uploads: in memory, on disk, or in Redis.'),
  admin_token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the admin token. It reloads the configuration and controls all pipelines.',
    )
    .example('WAYBILL_ADMIN_TOKEN'),
  token_keys_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, with the key of the tokens for trusted_publishers: at least 32 characters. With two keys separated by white space, the first signs and both are accepted. All API hosts need the same. Without it, a restart ends the tokens.',
    )
    .example('WAYBILL_TOKEN_KEYS'),
}).description('The daemon (waybill serve).');
