import path from 'node:path';
import { shellQuoted } from '../../../core/lib/text.ts';

/** The kinds of setup that `waybill init` can create, each with its configuration. */

export type SituationName = 'directory' | 'uploads' | 's3' | 'sftp' | 'weather';

/**
 * The paths to use in a new configuration. They are either relative to it, or the usual paths of a system
 * service.
 */
export interface Places {
  /** Contains the source directory and, below it, the directory of the destination. */
  incoming: string;
  published: string;
  /** The directory for the daemon's own data: staged uploads, the queue and host keys. */
  state: string;
  /** The path of the private key for SFTP. */
  key: string;
  /**
   * Whether to configure a system service, which stores its queue on disk (using LMDB) and requires a token
   * for metrics.
   */
  isService: boolean;
}

export interface Situation {
  name: SituationName;
  about: string;
  /** The program that the systemd unit runs. */
  program: 'serve' | 'weather';
  /** The names of the environment variables for secrets in the configuration. */
  secrets: readonly string[];
  /**
   * Other files that the configuration refers to, and that the service gets as credentials in the same way as
   * secrets.
   */
  credentials: readonly string[];
  text: (places: Places) => string;
  /** Returns the next command lines without a systemd unit. `site` is the source if it exists already. */
  next: (config: string, site?: string) => string[];
}

/** Paths relative to the configuration, for trying waybill out or running it as an ordinary user. */
export const relativePlaces: Places = {
  incoming: './incoming',
  published: './public',
  state: './state',
  key: '~/.ssh/id_ed25519',
  isService: false,
};

/** The same paths, with a site that exists already as the source. */
export const sitePlaces = (site: string): Places => ({
  ...relativePlaces,
  incoming: `./${site}`,
  published: site === 'public' ? './www' : './public',
});

/** The paths that the systemd unit creates. */
export const servicePlaces: Places = {
  incoming: '/var/lib/waybill/incoming',
  published: '/var/lib/waybill/public',
  state: '/var/lib/waybill',
  key: '/run/credentials/waybill.service/SFTP_KEY',
  isService: true,
};

const head = (what: string): string => `# ${what}
#
# Check it with: waybill config check --config THIS_FILE
# Every setting is in docs/configuration.md. Unknown keys are refused; relative paths are relative to this file.
`;

/** The secret that `GET /metrics` of a system service requires. */
export const metricsToken = 'WAYBILL_METRICS_TOKEN';

const metrics = ({
  isService,
}: Places): string => `  # A reverse proxy for the whole site also exposes GET /metrics, which then needs a token.
  ${isService ? '' : '# '}metrics: { token_env: ${metricsToken} }
`;

const daemon = (places: Places): string => `server:
  http:
    listen: 127.0.0.1:8080 # this machine only; a reverse proxy adds TLS and rate limits
    trusted_proxies: [loopback] # proxies whose X-Forwarded-For is trusted
  # Staged uploads. Needs space for the bundles of one day and the uploads in progress.
  staging: { directory: ${places.state}/staging }
  # With the embedded queue, accepted uploads survive kills and power failures. Needs the package lmdb.
  ${places.isService ? '' : '# '}queue: { driver: embedded, directory: ${places.state}/queue }
${metrics(places)}`;

const tokens = `# Tokens of producers. The value is a secret of at least 24 characters, in the environment or in a file of
# secrets.directory. Generate one with: waybill token new producer
upload_tokens:
  - id: producer
    value_env: WAYBILL_TOKEN
    pipelines: [uploads]
`;

const upload = `    source:
      backend: http_upload
      max_upload_size: 512MiB # of the archive, and of the extracted bundle
      max_files: 10000
`;

const uploading = (config: string): string[] => [
  'export WAYBILL_TOKEN=$(waybill token new producer)',
  `waybill serve --config ${shellQuoted(config)}`,
  'waybill push DIRECTORY --to http://127.0.0.1:8080 --pipeline uploads',
];

const running = (config: string, site?: string): string[] => [
  ...(site === undefined ? [`cp -r DIRECTORY ${shellQuoted(siblingPath(config, 'incoming'))}`] : []),
  `waybill run --config ${shellQuoted(config)} --dry-run`,
  `waybill run --config ${shellQuoted(config)}`,
  `waybill serve --config ${shellQuoted(config)}`,
];

function siblingPath(config: string, name: string): string {
  return path.join(path.dirname(config), name);
}

const directoryPipeline = (places: Places): string => `pipelines:
  - id: site
    # All files of the directory. With manifest: required, each subdirectory with a manifest.json is a bundle,
    # and mapping: preserve_relative publishes each bundle at its path.
    source: { backend: local, path: ${places.incoming}, manifest: auto }
    # Runs that waybill serve starts. On a schedule: schedule: '30 2 * * *'
    watch: true # a change of the source starts a run
    destinations:
`;

export const situations: readonly Situation[] = [
  {
    name: 'directory',
    about: 'a directory, published to another one',
    program: 'serve',
    secrets: [],
    credentials: [],
    text: (places) => `${head('Publishes one directory to another.')}
${directoryPipeline(places)}      - id: web
        backend: local
        path: ${places.published}
        mapping: fixed # publish at the root of the destination
        workflow: replacement # remove files that a bundle no longer has; additive keeps them
        outputs:
          checksums: true # SHA256SUMS
          index: auto # an HTML listing, if the bundle has no index.html
        # public_base_url: https://www.example.org/

# Used only by waybill serve.
${daemon(places)}`,
    next: running,
  },
  {
    name: 'uploads',
    about: 'bundles uploaded over HTTP, published to a directory',
    program: 'serve',
    secrets: ['WAYBILL_TOKEN'],
    credentials: [],
    text: (places) => `${head('Accepts bundles over HTTP and publishes them to a directory on this machine.')}
${tokens}
${daemon(places)}
pipelines:
  - id: uploads
${upload}    destinations:
      - id: web
        backend: local
        path: ${places.published} # document root of the web server
        mapping: preserve_relative # each bundle at its own path; fixed publishes only the newest, at the root
        workflow: replacement # remove files that a bundle no longer has; additive keeps them
        # layout: releases # new directory per publication, atomic switch, rollback
        outputs:
          checksums: true # SHA256SUMS
          index: auto # an HTML listing, if the bundle has no index.html
        # public_base_url: https://www.example.org/
`,
    next: uploading,
  },
  {
    name: 's3',
    about: 'bundles uploaded over HTTP, published to a bucket',
    program: 'serve',
    secrets: ['WAYBILL_TOKEN', 'S3_ACCESS_KEY_ID', 'S3_SECRET_ACCESS_KEY'],
    credentials: [],
    text: (places) => `${head('Accepts bundles over HTTP and publishes them to a bucket.')}
${tokens}
${daemon(places)}
pipelines:
  - id: uploads
${upload}    destinations:
      - id: cdn
        backend: s3
        bucket: my-bucket # change this
        prefix: bundles/ # without it, waybill uses the whole bucket
        region: eu-central-1 # change this
        # endpoint: https://s3.example.org # for servers other than AWS
        # Default: the AWS credential chain, such as the role of the machine.
        access_key_id_env: S3_ACCESS_KEY_ID
        secret_access_key_env: S3_SECRET_ACCESS_KEY
        mapping: preserve_relative # each bundle at its own path; fixed publishes only the newest, at the prefix
        workflow: replacement # remove objects that a bundle no longer has; additive keeps them
        cache_control: public, max-age=60
        outputs:
          checksums: true # SHA256SUMS
          index: auto # an HTML listing, if the bundle has no index.html
        # public_base_url: https://cdn.example.org/
`,
    next: (config) => [
      'export S3_ACCESS_KEY_ID=… S3_SECRET_ACCESS_KEY=…',
      `waybill inspect --config ${shellQuoted(config)} --pipeline uploads --probe`,
      ...uploading(config),
    ],
  },
  {
    name: 'sftp',
    about: 'a directory, published to an SFTP server',
    program: 'serve',
    secrets: [],
    credentials: ['SFTP_KEY'],
    text: (places) => `${head('Publishes a directory to an SFTP server.')}
${directoryPipeline(places)}      - id: server
        backend: sftp
        host: sftp.example.org # change this
        user: publisher # change this
        path: site # relative to the login directory
        ssh_key_file: ${places.key} # must be readable only by its owner; keys of an SSH agent are tried first
        # ssh_key_passphrase_env: SFTP_KEY_PASSPHRASE
        host_key_policy: accept-new # trust and record the first key; strict accepts only known hosts
        known_hosts_file: ${places.state}/known_hosts
        mapping: fixed # publish at the root of the destination
        workflow: replacement # remove files that a bundle no longer has; additive keeps them
        outputs:
          checksums: true # SHA256SUMS

# Used only by waybill serve.
${daemon(places)}`,
    next: (config) => [
      `waybill inspect --config ${shellQuoted(config)} --pipeline site --probe`,
      ...running(config),
    ],
  },
  {
    name: 'weather',
    about: 'weather of the United States, from PostgreSQL over HTTP',
    program: 'weather',
    secrets: ['WEATHER_DATABASE_URL'],
    credentials: [],
    text: (places) => `${head('Serves weather records of a database over HTTP, and fills it.')}
server:
  http:
    listen: 127.0.0.1:8081 # this machine only; a reverse proxy adds TLS and rate limits
${metrics(places)}
# The URL is a secret: postgres://USER:PASSWORD@HOST/DATABASE, in the environment or a file of secrets.directory.
databases:
  - { name: primary, driver: postgres, url_env: WEATHER_DATABASE_URL }
  # Embedded, without a server, for evaluation. Only one process can open it:
  # - { name: embedded, driver: pglite, directory: ./database }

weather:
  # Requests of waybill weather feed to the National Weather Service: docs/weather-feeder.md
  feed:
    # url_env: WEATHER_FEED_URL # a role that can write; default: url_env of the database
    nws:
      user_agent: example.org weather (ops@example.org) # change this: your contact
      alerts: { areas: [NY, NJ] } # {} requests all
      stations: [KNYC]
      locations: ['OKX/33,35'] # hourly and narrative forecasts: office, x and y
      places: { stations: [NY], zones: [NY], offices: [OKX] }
`,
    next: (config) => [
      'export WEATHER_DATABASE_URL=postgres://…',
      `waybill weather feed --config ${shellQuoted(config)} --create-tables --once`,
      `waybill weather --config ${shellQuoted(config)}`,
    ],
  },
];
