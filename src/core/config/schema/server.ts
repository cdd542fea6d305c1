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
import { defaultKeep, queueSchema, stagingSchema } from './staging.ts';

/** `server.console`. */
export const consoleSchema = map({
  enabled: boolean().default(true).description('Serves the console, at console below the base path.'),
  session: duration({ atLeast: '1m', atMost: '30d' })
    .default('12h')
    .description('How long somebody stays logged in. A session ends earlier when its token does.'),
  session_key_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the secret that sessions are sealed with: 32 characters or more. Without it each process makes one for itself, so that a restart ends all sessions; several API hosts behind one address need the same one.',
    )
    .example('WAYBILL_SESSION_KEY'),
}).description(
  'The pages on which operators follow and steer runs in a browser. Who logs in has a token of upload_tokens, or that of server.admin_token_env.',
);

/** `server.metrics`. */
export const metricsSchema = map({
  enabled: boolean().default(true).description('Serves GET /metrics, in the text format of Prometheus.'),
  token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the bearer token that GET /metrics asks for. Without it, none is asked for.',
    )
    .example('WAYBILL_METRICS_TOKEN'),
}).description('Metrics of the daemon: counts by the ids of this configuration.');

const cors = map({
  origins: list(origin(), { min: 1, expected: 'a list of origins, at least one' })
    .required()
    .description(
      'Origins whose pages may read answers, as browsers send them: https://app.example.org, without a path. "*" stands for any.',
    )
    .example(['https://maps.example.org']),
}).description(
  'Pages of other origins (CORS). Without it none may read what the API answers. Cookies are never allowed: a page that uploads sends a token.',
);

export const http = map({
  listen: listen()
    .default('127.0.0.1:8080')
    .description(
      'Address and port of the HTTP API, an IPv6 address in brackets. Port 0 takes any free one. TLS and rate limits belong in a proxy before it. A socket that systemd passes on is taken instead.',
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
  allowed_hosts: list(host(), { min: 1, expected: 'a list of host names, at least one' })
    .description(
      'Names under which clients reach the API, as they send them in Host; any other name is answered with 421 host_not_allowed. Addresses and localhost always pass. Without it, every name passes. Set it where browsers can reach the daemon without a proxy that checks the name: it keeps pages of other sites from reading the API by DNS rebinding.',
    )
    .example(['publish.example.org']),
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
    .description(
      'Longest time that the body of one upload may take; any other body has a minute, and one without a token 30 s.',
    ),
  idle_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('60s')
    .description('Longest pause between two pieces of a body.'),
  max_connections: integer(1, 1_000_000)
    .default(2000)
    .description('Connections that may be open at once; one more is closed at once.'),
  max_streams: integer(0, 1_000_000)
    .default(1000)
    .description(
      'Streams of events that may be open at once; one more is answered with 503 too_many_streams. Each takes one of max_connections.',
    ),
  max_streams_per_client: integer(1, 1_000_000)
    .default(250)
    .description(
      'Streams of events that one token, or one client address without a token, may have open at once; one more is answered with 429 quota_exceeded.',
    ),
  max_uploads_per_token: integer(1, 100_000)
    .description(
      'Archives that one token may be sending at once, to all its pipelines; one more is answered with 429 quota_exceeded. Without it, half of queue_size if there are several upload_tokens.',
    )
    .example(16),
  max_body_memory: size({ atLeast: 16 * 1024 * 1024 })
    .default('64MiB')
    .description(
      'Memory for the bodies of all requests with a token that are not uploads, together; a token may have half of it. Bodies without a token have a quarter as much, at least 16 MiB, and a client address may have half of that. More is answered with 503 server_busy. Uploads go to staging and take none. Forms and JSON of at most 16 KiB, such as a login or a reload, do not count.',
    ),
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
  protect_scene_maps: boolean()
    .default(false)
    .description(
      'Requires a token of upload_tokens on POST /v1/scene-maps/validate. Otherwise any client may have scene maps checked.',
    ),
  cors,
}).description('The HTTP API of the daemon.');

const rerun = map({
  keep_for: duration({ atLeast: '0s', atMost: '366d' })
    .description(
      'How long the bundle of a run stays staged after its end. Without it, as long as its record (http.retention), which no bundle outlives; 0s keeps none.',
    )
    .example('24h'),
  max_bundles: integer(0, 100_000)
    .description(
      'How many such bundles are kept at most; the oldest go first. Without it, as many as there are.',
    )
    .example(100),
  max_bytes: size({ atLeast: 0 })
    .description(
      'How much room they may take together; the oldest go first. Without it, as much as there is.',
    )
    .example('10GiB'),
}).description(
  'Bundles of runs that have ended stay staged so that the runs can be repeated with the same bytes. Those of cancelled runs are removed at once.',
);

export const resumable = map({
  max_uploads: integer(0, 100_000)
    .default(32)
    .description(
      'Partial uploads that may be there at once; one more is answered with 503 partial_uploads_full. 0 switches them off: their paths are 404, and `waybill push` sends every archive in one request.',
    ),
  max_bytes: size({ atLeast: 1 })
    .description(
      'What they may have together, each counted with the whole of its archive. Without it, as much as there is room for.',
    )
    .example('20GiB'),
  max_uploads_per_token: integer(1, 100_000)
    .description(
      'Partial uploads that one token may have at once; one more is answered with 429 quota_exceeded. Without it, half of max_uploads if there are several upload_tokens.',
    )
    .example(16),
  max_bytes_per_token: size({ atLeast: 1 })
    .description(
      'Bytes that those of one token may have together; a single one may have more. Without it, half of max_bytes if there are several upload_tokens.',
    )
    .example('10GiB'),
  retention: duration({ atLeast: '1s', atMost: '366d' })
    .default('24h')
    .description('How long a partial upload is kept after its last byte, also over a restart.'),
}).description(
  'Uploads in several requests (tus 1.0), which go on where they were after a lost connection. What has come of them is kept in staging, on the disk of this machine.',
);

export const worker = map({
  listen: listen()
    .description(
      'Address and port at which waybill worker answers GET /healthz, /readyz, /livez and /metrics; the form is that of server.http.listen. Without it, a worker listens nowhere. The option --listen of the command comes before it.',
    )
    .example('127.0.0.1:9090'),
}).description('Workers without an API (waybill worker), which need server.queue: {driver: bullmq}.');

/** `server`. */
export const serverSchema = map({
  http: http.default(),
  metrics: metricsSchema.default(),
  console: consoleSchema.default(),
  retry_for: duration({ atLeast: '0s', atMost: '7d' })
    .default('30m')
    .description(
      'How long a run that failed for a passing cause (a storage that cannot be reached, a busy destination) is tried again, from its first failure on. 0s: a failed run is not tried again. Pipelines can set their own retry_for.',
    ),
  run_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('12h')
    .description(
      'Longest time of one try of a run, in the daemon and by `waybill run`. A run that takes longer ends as failed with run_timeout and is not tried again. Pipelines can set their own run_timeout.',
    ),
  discovery_timeout: duration({ atLeast: '1s', atMost: '24d' })
    .default('1h')
    .description(
      'Longest time that reading a source may take: its listing, its manifests and, with manifest: auto, the files that changed. A run whose source takes longer ends as failed with discovery_timeout and is not tried again. Pipelines can set their own discovery_timeout.',
    ),
  rerun: rerun.default(),
  resumable: resumable.default(),
  worker: worker.default(),
  staging: stagingSchema
    .default({ backend: 'local', directory: './staging', keep: defaultKeep })
    .description('Where uploads wait until they are published.'),
  queue: queueSchema
    .default({ driver: 'memory' })
    .description('Where accepted uploads wait: in this process, or in Redis.'),
  admin_token_env: environmentName()
    .description(
      'Environment variable, or file in secrets.directory, that holds the token of the operator of the daemon: it may act on all pipelines in the console, and reload the configuration. Without it, these actions are unavailable.',
    )
    .example('WAYBILL_ADMIN_TOKEN'),
}).description('The daemon (waybill serve).');
