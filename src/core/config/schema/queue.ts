import {
  choice,
  duration,
  environmentName,
  list,
  map,
  matching,
  path,
  variants,
} from '../../lib/settings/kinds.ts';

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
