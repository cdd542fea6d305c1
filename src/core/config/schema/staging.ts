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
import { type PathBase, resolvePath } from '../../lib/settings/parse-values.ts';
import type { AcceptedBy, Setting } from '../../lib/settings/setting.ts';
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
      'Maximum total size per pipeline; the least recently used files are removed first. Default: twice max_upload_size. 0 keeps none.',
    )
    .example('4GiB'),
  age: duration({ atLeast: '1s', atMost: '366d' })
    .default(defaultKeep.age)
    .description('How long a file is kept after its last use.'),
}).description(
  'Files of earlier uploads, so that producers send only changed files. They are hard links on this machine (with bullmq, in scratch_directory), and removed first when the disk has less than 10 %, or 1 GiB, free.',
);

const directory = map({
  keep: keep.default(),
  backend: choice(thisMachine)
    .default(thisMachine)
    .description('A directory of this machine, or one that all hosts share.'),
  directory: path()
    .default('./staging')
    .description(
      'Directory with space for queue_size bundles. With bullmq, all hosts share it, for example over NFS; otherwise only this daemon uses it.',
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

export const queueSchema = variants('driver', 'a queue such as {driver: memory}', {
  memory: map({
    driver: choice('memory')
      .required()
      .description('In memory. A restart loses runs, queue and idempotency keys.'),
  }),
  embedded: map({
    driver: choice('embedded')
      .required()
      .description(
        'On disk. Runs, waiting uploads, idempotency keys and undelivered events survive restarts and power failures. Needs the package lmdb.',
      ),
    directory: path()
      .default('./queue')
      .description(
        'Directory on a local disk, for this daemon only. The queue survives only with it and server.staging.directory.',
      ),
  }),
  bullmq: map(
    {
      driver: choice('bullmq')
        .required()
        .description('In Redis, for several hosts. Runs, queue and idempotency keys survive restarts.'),
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
          .description('Addresses of the Sentinels.')
          .example(['sentinel-1:26379', 'sentinel-2:26379', 'sentinel-3:26379']),
      }).description(
        'Sentinels that name the primary. They must not require a password. The host in redis_url_env is then ignored.',
      ),
      redis_cluster: boolean().default(false).description('The URL names a node of a Redis Cluster.'),
      signing_key_envs: list(environmentName(), {
        min: 1,
        expected: 'a list of names of environment variables, each once',
        isUnique: true,
      })
        .description(
          'Environment variables, or files in secrets.directory, with the keys that sign jobs, at least 32 characters each, the same in all processes. The first signs, and all are accepted. Jobs without a valid signature fail with job_rejected. Default: jobs are not signed.',
        )
        .example(['WAYBILL_QUEUE_KEY']),
      prefix: matching(
        /^[A-Za-z0-9_.:{}-]{1,64}$/,
        'a name of letters, digits, dots, colons, braces, _ and -',
      )
        .default('waybill')
        .description('Prefix of every key in Redis. Installations that share a server need different ones.'),
      worker_timeout: duration({ atLeast: '3s', atMost: '1h' })
        .default('30s')
        .description('Time without a sign of life after which a process is considered dead.'),
      scratch_directory: path()
        .default('./scratch')
        .description(
          'Directory of this machine, not shared, with space for uploads being received and max_concurrency bundles.',
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
