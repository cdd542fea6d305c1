import { randomUUID } from 'node:crypto';
import type { PipelineConfig } from '../../core/config/config.ts';
import type { Clock, Timer } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import type { PublishingThreads } from '../threads/publishing-pool.ts';

/* Removes expired channels, even at bundle paths that no longer receive publications. */

export interface Tidying {
  /** Called after the configuration was reloaded. */
  update(pipelines: readonly PipelineConfig[]): void;
  /** Stops tidying, even in the middle of a round. */
  close(): Promise<void>;
}

export interface TidyingOptions {
  pipelines: readonly PipelineConfig[];
  threads: Pick<PublishingThreads, 'releases'>;
  clock: Clock;
  log: Log;
}

const maxMs = 3_600_000;

/**
 * Removes expired channels from all destinations that have channels. It runs right away and then every hour,
 * or more often if a channel expires sooner. A round that is due during another one is skipped. A reload ends
 * the current round and starts one with the new configuration. Failures are logged and retried in the next
 * round.
 */
export function startTidying({ pipelines, threads, clock, log }: TidyingOptions): Tidying {
  const stopping = new AbortController();
  const isStopping = (): boolean => stopping.signal.aborted;
  let timer: Timer | null = null;
  let places: readonly Place[] = [];
  let running: Promise<void> | null = null;
  const tidyAll = async (current: readonly Place[]): Promise<void> => {
    for (const { pipelineId, destinationId } of current) {
      if (isStopping() || places !== current) return;
      const runId = `tidy.${randomUUID()}`;
      const about = { pipeline_id: pipelineId, destination_id: destinationId };
      try {
        const request = { kind: 'tidy', runId, pipelineId, destinationId, path: null } as const;
        const answer = await threads.releases(request, stopping.signal);
        if (answer.kind !== 'tidy') continue;
        for (const { destinationPath, ...removed } of answer.paths)
          log.info({ ...about, destination_path: destinationPath, ...removed }, 'releases tidied');
      } catch (error) {
        if (isStopping()) return;
        log.warn({ ...about, err: error }, 'releases were not tidied; the next tidying removes them');
      }
    }
  };
  const tidyUntilCurrent = async (): Promise<void> => {
    let tidied: readonly Place[];
    do {
      tidied = places;
      await tidyAll(tidied);
    } while (places !== tidied);
    running = null;
  };
  const begin = (): void => void (running ??= tidyUntilCurrent());
  const update = (now: readonly PipelineConfig[]): void => {
    timer?.cancel();
    places = placesOf(now);
    if (places.length === 0) return;
    timer = clock.every(Math.min(maxMs, ...places.map(({ ttlMs }) => ttlMs)), begin, { unref: true });
    begin();
  };
  update(pipelines);
  return {
    update,
    close: async () => {
      timer?.cancel();
      stopping.abort();
      await running;
    },
  };
}

interface Place {
  pipelineId: string;
  destinationId: string;
  /** The shortest time to live of any channel at this destination, in milliseconds. */
  ttlMs: number;
}

function placesOf(pipelines: readonly PipelineConfig[]): Place[] {
  return pipelines.flatMap(({ id: pipelineId, destinations }) =>
    destinations.flatMap(({ id: destinationId, releases }) => {
      const times = releases?.channels.map(({ ttlMs }) => ttlMs) ?? [];
      return times.length === 0 ? [] : [{ pipelineId, destinationId, ttlMs: Math.min(...times) }];
    }),
  );
}
