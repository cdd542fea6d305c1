import {
  choice,
  duration,
  environmentName,
  list,
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
 * `server.staging`. A queue in memory stages in a local directory, which the program uses directly. A queue
 * in Redis stages in any storage that all hosts can reach.
 */
export const thisMachine = 'local';

const remote = allBackends.filter(({ name }) => name !== thisMachine);

/** The default of `server.staging.keep`. */
export const defaultKeep = { age: '7d' };

const keep = map({
  size: size({ atLeast: 0 })
    .description(
      'Room that the kept files of one pipeline may take; what was not of use for longest goes first. Without it twice the max_upload_size of the pipeline: the largest bundle that it takes, and what changes in the next one. 0 keeps none, and every upload has to be whole.',
    )
    .example('4GiB'),
  age: duration({ atLeast: '1s', atMost: '366d' })
    .default(defaultKeep.age)
    .description('How long a file is kept that no upload had any use for.'),
}).description(
  'Files of bundles that were uploaded, by digest and for each pipeline, so that a producer sends only what has changed. They are hard links to what is staged, on the disk of this machine (with bullmq, in queue.scratch_directory of each host with an API), and the first to go where that has less than a tenth, or 1 GiB, free.',
);

const directory = map({
  keep: keep.default(),
  backend: choice(thisMachine)
    .default(thisMachine)
    .description('A directory of this machine, or one that all hosts share.'),
  directory: path()
    .default('./staging')
    .description(
      'Directory of staged uploads; it needs room for queue_size bundles. With the queue in memory it belongs to the daemon alone; with bullmq all hosts share it, for example over NFS.',
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
    expected: `a map with the key directory, or with backend: ${remote.map(({ name }) => name).join(' or ')} and what belongs to it`,
  },
) as Setting<StagingDocument, false>;

/** Whether the value of `server.staging.backend` is one that only a queue of several hosts can use. */
export function isRemoteStaging(backend: string): boolean {
  return remote.some(({ name }) => name === backend);
}

export function resolveStaging(staging: StagingDocument, base: PathBase): SourceLocation {
  if (staging.backend === thisMachine)
    return { backend: thisMachine, path: resolvePath(staging.directory, base) };
  return backendOf(staging).resolve(staging, base);
}

/** The directory of this machine that staging is: `relations.ts` refuses any other for a queue in memory. */
export function stagingDirectory(location: SourceLocation): string {
  if (location.backend === thisMachine) return location.path;
  throw new Error(`the checks accepted staging in ${location.backend} with a queue in memory`);
}

/** `server.queue`. */
export const queueSchema = variants('driver', 'where accepted uploads wait', {
  memory: map({
    driver: choice('memory')
      .required()
      .description('In this process: a restart forgets runs, queue and idempotency keys.'),
  }),
  embedded: map({
    driver: choice('embedded')
      .required()
      .description(
        'In this process and on its disk: runs, waiting uploads, idempotency keys and events that are not delivered yet survive kills, power failures and restarts. It needs the package lmdb.',
      ),
    directory: path()
      .default('./queue')
      .description(
        'Directory of the queue, on a local disk and of this daemon alone. It must survive what the queue is to survive, and so must server.staging.directory.',
      ),
  }),
  bullmq: map(
    {
      driver: choice('bullmq')
        .required()
        .description('In Redis, for more than one host: runs, queue and idempotency keys survive restarts.'),
      redis_url_env: environmentName()
        .description(
          'Environment variable, or file in secrets.directory, that holds the URL of Redis. Required, unless there are several (redis_url_envs).',
        )
        .example('WAYBILL_REDIS_URL'),
      redis_url_envs: list(environmentName(), {
        min: 1,
        expected: 'a list of names of environment variables, each once',
        isUnique: true,
      })
        .description(
          'Instead of redis_url_env: the variables with the URLs of several Redis, among which the pipelines are divided by these names. The names must be the same in all processes; one that is added takes over its share of the pipelines.',
        )
        .example(['WAYBILL_REDIS_URL_A', 'WAYBILL_REDIS_URL_B']),
      signing_key_envs: list(environmentName(), {
        min: 1,
        expected: 'a list of names of environment variables, each once',
        isUnique: true,
      })
        .description(
          'Environment variables, or files in secrets.directory, that hold the keys that jobs in Redis are signed with: 32 characters or more. The first one signs, all are accepted. All processes need the same. A job without a valid signature is not run (job_rejected). Without it, jobs are not signed.',
        )
        .example(['WAYBILL_QUEUE_KEY']),
      prefix: matching(
        /^[A-Za-z0-9_.:{}-]{1,64}$/,
        'a name of letters, digits, dots, colons, braces, _ and -',
      )
        .default('waybill')
        .description('Begins every key in Redis, so that several installations can share one.'),
      worker_timeout: duration({ atLeast: '3s', atMost: '1h' })
        .default('30s')
        .description(
          'A daemon or worker that Redis has not heard of for so long is taken for dead: its runs are given to others, and the uploads that it was receiving no longer hold slots or idempotency keys.',
        ),
      scratch_directory: path()
        .default('./scratch')
        .description(
          'Directory of this machine, not shared: bundles are extracted here while they are received and while they are published. It needs room for the uploads that are being received and max_concurrency bundles.',
        ),
    },
    { oneOf: [['redis_url_env', 'redis_url_envs']] },
  ),
});
