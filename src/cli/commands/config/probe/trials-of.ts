import type { Config, PipelineConfig } from '../../../../core/config/config.ts';
import type { KeyPath } from '../../../../core/config/yaml-text.ts';
import type { CoreContext } from '../../../../core/context.ts';
import { backendOf, type StorageLocation, describeLocation } from '../../../../core/storage/backends.ts';
import { leastRoom, tryQueue } from '../../../daemon/trials.ts';
import { tryReadableDirectory, tryWritableDirectory } from './try-directory.ts';
import { tryCollector, tryDatabase, tryNotifier } from './try-services.ts';
import { tryDestination, trySource } from './try-storage.ts';
import { tryTemplates } from './try-templates.ts';
import type { Trial } from './trial.ts';

/** Everything outside of the file that a configuration names, in the order of the file's reference. Pure. */
export function trialsOf(config: Config, context: CoreContext): Trial[] {
  return [
    ...ofServer(config, context),
    ...ofTracing(config),
    ...config.pipelines.flatMap((pipeline, index) => ofPipeline(pipeline, ['pipelines', index], context)),
    ...config.notifiers.map((notifier, index) => ({
      path: ['notifiers', index],
      subject: `notifier "${notifier.id}" (${notifier.kind})`,
      run: (signal: AbortSignal) => tryNotifier(context, notifier, signal),
    })),
    ...config.databases.map((database, index) => ({
      path: ['databases', index],
      subject: `database "${database.name}" (${database.driver})`,
      run: () => tryDatabase(context, database),
    })),
    ...ofTemplates(config),
  ];
}

/** Where staging of this machine is configured, beside staging that hosts share and without. */
const ofRedis = ['server', 'queue'] as const;
const inQueue = ['queue', 'scratch_directory'] as const;
const inStaging = ['staging', 'directory'] as const;

/** What the daemon alone needs: staging where anything is uploaded, and the queue. */
function ofServer({ pipelines, server, secrets }: Config, context: CoreContext): Trial[] {
  const { staging, queue } = server;
  const trials: Trial[] = [];
  if (secrets.directory !== null) {
    const { directory } = secrets;
    const run = async (): Promise<string> => tryReadableDirectory(directory);
    trials.push({ path: ['secrets', 'directory'], subject: directory, run });
  }
  const directory = (path: KeyPath, subject: string): Trial => ({
    path,
    subject,
    run: async () => tryWritableDirectory(subject, { leastRoom }),
  });
  const isShared = staging.shared !== null;
  if (pipelines.some(({ source }) => source.backend === 'http_upload'))
    trials.push(directory(['server', ...(isShared ? inQueue : inStaging)], staging.directory));
  if (staging.shared?.backend === 'local')
    trials.push(directory(['server', ...inStaging], staging.shared.path));
  else if (staging.shared !== null)
    trials.push(destinationAt(['server', 'staging'], staging.shared, context));
  if (queue.driver === 'embedded') trials.push(directory(['server', 'queue', 'directory'], queue.directory));
  if (queue.driver === 'bullmq')
    for (const [index, urlEnv] of queue.redisUrlEnvs.entries())
      trials.push({
        path:
          queue.redisUrlEnvs.length === 1
            ? [...ofRedis, 'redis_url_env']
            : [...ofRedis, 'redis_url_envs', index],
        subject: `Redis (${urlEnv})`,
        run: () => tryQueue(context, urlEnv),
      });
  return trials;
}

function ofTracing({ tracing }: Config): Trial[] {
  const endpoint = tracing?.endpoint ?? null;
  if (endpoint === null) return [];
  const run = (signal: AbortSignal): Promise<string> => tryCollector(endpoint, signal);
  return [{ path: ['tracing', 'endpoint'], subject: endpoint, run }];
}

function ofPipeline({ source, destinations }: PipelineConfig, at: KeyPath, context: CoreContext): Trial[] {
  const trials = destinations.map(({ location }, index) =>
    destinationAt([...at, 'destinations', index], location, context),
  );
  if (source.backend === 'http_upload') return trials;
  const path = [...at, 'source', backendOf(source).placeSetting];
  const run = (signal: AbortSignal): Promise<string> => trySource(context, source, signal);
  return [{ path, subject: describeLocation(source), run }, ...trials];
}

function destinationAt(at: KeyPath, location: StorageLocation, context: CoreContext): Trial {
  return {
    path: [...at, backendOf(location).placeSetting],
    subject: describeLocation(location),
    run: (signal) => tryDestination(context, location, signal),
  };
}

function ofTemplates({ templates: { baseDir } }: Config): Trial[] {
  if (baseDir === null) return [];
  return [{ path: ['templates', 'base_dir'], subject: baseDir, run: () => tryTemplates(baseDir) }];
}
