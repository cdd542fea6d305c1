import type { Config } from '../../core/config/config.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { ThreadPool } from './pool.ts';
import {
  answerOf,
  type AnswerOutcome,
  type PublishingPoolOptions,
  publishThread,
} from './publishing-pool.ts';
import type { SceneMapRequest } from './scene-map-task.ts';

/** Checks scene maps on a thread, because a malicious document could block the event loop for seconds. */
export interface SceneMapPool {
  /**
   * Checks a scene map and resolves with the report as JSON text. Throws `server_busy` if it takes longer
   * than `limitMs`, `invalid_request` if the transcript cannot be read, or `worker_failed`.
   */
  check(request: SceneMapRequest): Promise<string>;
  close(): Promise<void>;
}

// Use a single thread. On a machine with two cores, that leaves one of them for the event loop.
const threads = 1;
const usualLimitMs = 30_000;
const limits = { maxOldGenerationSizeMb: 256 };

interface SceneMapPoolOptions extends Pick<PublishingPoolOptions, 'env' | 'clock' | 'log' | 'workerFile'> {
  config: Config;
}

export function sceneMapPool(options: SceneMapPoolOptions, limitMs = usualLimitMs): SceneMapPool {
  const { env, clock, log, workerFile: file = publishThread } = options;
  // Tasks always come with a configuration, but this one does not need any.
  const config = { ...options.config, pipelines: [] };
  const pool = new ThreadPool<SceneMapRequest, AnswerOutcome<string>>(
    {
      clock,
      log,
      file,
      threads,
      env,
      limits,
      data: { env: { ...env }, dryRun: true },
      configOf: () => config,
      // While it works on a document, the thread cannot receive messages. There is no point in asking it to
      // stop.
      graceMs: 0,
      notify: () => undefined,
    },
    'sceneMaps',
  );
  return {
    check: async (request) => {
      const enough = new AbortController();
      const timer = clock.timeout(limitMs, () => enough.abort(tooLong(limitMs)));
      try {
        return answerOf(await pool.process(request, { signal: enough.signal, onProgress: () => undefined }));
      } catch (error) {
        throw enough.signal.aborted ? enough.signal.reason : error;
      } finally {
        timer.cancel();
      }
    },
    close: () => pool.close(),
  };
}

function tooLong(limitMs: number): WaybillError {
  return new WaybillError('server_busy', `the scene map was not checked within ${limitMs / 1000} s`, {
    hint: 'try again later, or use waybill scene-map validate',
  });
}
