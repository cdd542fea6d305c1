import {
  boolean,
  choice,
  duration,
  environmentName,
  list,
  listen,
  map,
  matching,
  path,
  size,
  variants,
  variantsOr,
} from '../../lib/settings/kinds.ts';
import type { AcceptedBy, Setting } from '../../lib/settings/setting.ts';
import { type PathBase, resolvePath } from '../../lib/settings/values.ts';
import {
  allBackends,
  type BackendName,
  backendOf,
  type LocationDocument,
  type SourceLocation,
} from '../../storage/backends.ts';
import { locationMap } from './locations.ts';

/**
 * The `server.staging` section of the configuration. With a queue in memory, uploads are staged in a local
 * directory. With a queue in Redis, they are staged in any storage that all hosts can reach.
 */
export const thisMachine = 'local';

const remote = allBackends.filter(({ name }) => name !== thisMachine);

/** The default of `server.staging.keep`. */
export const defaultKeep = { age: '7d' };

const keep = map({
  size: size({ atLeast: 0 })
    .description(
      'Maximum total size of the kept files of one pipeline. The least recently used files are removed first. Default: twice the max_upload_size of the pipeline. 0 keeps no files, so every upload must be complete.',
    )
    .example('4GiB'),
  age: duration({ atLeast: '1s', atMost: '366d' })
    .default(defaultKeep.age)
    .description('How long a file is kept after the last upload that used it.'),
}).description(
  'Files of earlier uploads, kept by digest for each pipeline, so that a producer sends only changed files. They are hard links to staged files on the disk of this machine (with bullmq, in queue.scratch_directory of each API host). They are removed first when the disk has less than 10 %, or 1 GiB, free.',
);

const directory = map({
  keep: keep.default(),
  backend: choice(thisMachine)
    .default(thisMachine)
    .description('A directory of this machine, or one that all hosts share.'),
  directory: path()
    .default('./staging')
    .description(
      'Directory of staged uploads, with space for queue_size bundles. With the queue in memory, the daemon needs it for itself. With bullmq, all hosts share it, for example over NFS.',
    ),
});

type RemoteLocation = Extract<LocationDocument, { backend: Exclude<BackendName, typeof thisMachine> }>;
export type StagingDocument =
  AcceptedBy<typeof directory> | (RemoteLocation & { keep: AcceptedBy<typeof keep> });

export const stagingSchema = variantsOr(
  'backend',
  Object.fromEntries(
    remote.map((backend) => [backend.name, locationMap(backend, {}, { keep: keep.default() })]),
  ),
  {
    otherwise: directory,
    expected: `a map with the key directory, or with backend: ${remote.map(({ name }) => name).join(' or ')} and its settings`,
  },
) as Setting<StagingDocument, false>;

/** Reports whether this value of `server.staging.backend` only works if several hosts share the queue. */
export function isRemoteStaging(backend: string): boolean {
  return remote.some(({ name }) => name === backend);
}

export function resolveStaging(staging: StagingDocument, base: PathBase): SourceLocation {
  if (staging.backend === thisMachine)
    return { backend: thisMachine, path: resolvePath(staging.directory, base) };
  return backendOf(staging).resolve(staging, base);
}

/**
 * Returns the local directory for staging. If the queue is in memory, `relations.ts` does not allow anything
 * else.
 */
export function stagingDirectory(location: SourceLocation): string {
  if (location.backend === thisMachine) return location.path;
  throw new Error(`the checks accepted staging in ${location.backend} with a queue in memory`);
}

/** The `server.queue` section of the configuration. */
export const queueSchema = variants('driver', 'where accepted uploads wait', {
  memory: map({
    driver: choice('memory')
      .required()
      .description('In the memory of this process: a restart loses runs, queue and idempotency keys.'),
  }),
  embedded: map({
    driver: choice('embedded')
      .required()
      .description(
        'In this process and on its disk: runs, waiting uploads, idempotency keys and undelivered events survive kills, power failures and restarts. Needs the package lmdb.',
      ),
    directory: path()
      .default('./queue')
      .description(
        'Directory of the queue, on a local disk, used by this daemon only. The queue survives only what this directory and server.staging.directory survive.',
      ),
  }),
  bullmq: map(
    {
      driver: choice('bullmq')
        .required()
        .description('In Redis, for more than one host: runs, queue and idempotency keys survive restarts.'),
      redis_url_env: environmentName()
        .required()
        .description('Environment variable, or file in secrets.directory, with the URL of Redis.')
        .example('WAYBILL_REDIS_URL'),
      redis_sentinels: map({
        master: matching(/^[A-Za-z0-9._-]{1,128}$/, 'a name of letters, digits, dots, - and _')
          .required()
          .description('Name of the primary, as in `sentinel monitor`.')
          .example('waybill'),
        hosts: list(listen(), { min: 1, expected: 'a list of addresses, each once', isUnique: true })
          .required()
          .description('Addresses of the Sentinels. One that answers is enough.')
          .example(['sentinel-1:26379', 'sentinel-2:26379', 'sentinel-3:26379']),
      }).description(
        'Sentinels that name the primary Redis. The URL then gives only user, password, database and TLS; its host is ignored. Sentinels must not require a password.',
      ),
      redis_cluster: boolean().default(false).description('Whether the URL names a node of a Redis Cluster.'),
      signing_key_envs: list(environmentName(), {
        min: 1,
        expected: 'a list of names of environment variables, each once',
        isUnique: true,
      })
        .description(
          'Environment variables, or files in secrets.directory, with the keys that sign jobs in Redis: at least 32 characters each. The first key signs, and all keys are accepted. All processes need the same keys. A job without a valid signature is not run (job_rejected). Without it, jobs are not signed.',
        )
        .example(['WAYBILL_QUEUE_KEY']),
      prefix: matching(
        /^[A-Za-z0-9_.:{}-]{1,64}$/,
        'a name of letters, digits, dots, colons, braces, _ and -',
      )
        .default('waybill')
        .description('Prefix of every key in Redis, so that several installations can share one server.'),
      worker_timeout: duration({ atLeast: '3s', atMost: '1h' })
        .default('30s')
        .description(
          'A daemon or worker that has not renewed its entry in Redis for this long is considered dead. Other workers take over its runs, and its uploads release their slots and idempotency keys.',
        ),
      scratch_directory: path()
        .default('./scratch')
        .description(
          'Directory of this machine, not shared, with space for the uploads that are being received and for max_concurrency bundles.',
        ),
    },
    {
      check: ({ redis_sentinels: sentinels, redis_cluster: isCluster }) =>
        isCluster && sentinels !== undefined
          ? { reason: 'redis_sentinels cannot be combined with redis_cluster' }
          : null,
    },
  ),
});
