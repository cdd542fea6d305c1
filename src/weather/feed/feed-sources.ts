import type { FeedConfig, NwsConfig, SourceName } from '../../core/config/weather/feed.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { hasCode } from '../../core/lib/errors.ts';
import { inParallel } from '../../core/lib/parallel.ts';
import type { FeedResult } from './feed-document.ts';
import { filesAt, watchDirectory } from './sources/document-files.ts';
import { createClient } from './sources/http-client.ts';
import { poll } from './sources/poll.ts';
import { type PolledDocument, sourcesOf } from './sources/requests-of.ts';
import { openRequests } from './tables/requests.ts';
import type { WritableDatabase } from './tables/upsert.ts';

export interface FeedOptions {
  target: WritableDatabase;
  config: FeedConfig;
  clock: Clock;
  signal: AbortSignal;
  /** Called with the result for each document, as soon as it is available. */
  onResult: (fed: FeedResult) => void;
  /** Returns a number in [0, 1). For tests. */
  random?: () => number;
}

export interface ForeverOptions extends FeedOptions {
  /** Overrides the configured intervals, in milliseconds. */
  intervalMs: number | null;
  /** Called when a round fails, with the error and the time until the next attempt. */
  onTrouble: (error: unknown, againAfterMs: number) => void;
}

/** A group of sources that are polled together, at the same interval. */
interface PolledSource {
  everyMs: number;
  pollOnce: () => Promise<void>;
}

const retryAfterTroubleMs = 10_000;
const minPollMs = 500;

/**
 * Polls all configured sources once, and loads the files in the watched directory. Throws the database's
 * errors, or the reason of `signal` if it is aborted.
 */
export async function feedOnce(options: FeedOptions): Promise<void> {
  const polledSources = await openPolledSources({ ...options, intervalMs: null, settled: true });
  await allEnded(polledSources.map(({ pollOnce }) => pollOnce()));
}

/**
 * Polls all configured sources until `signal` is aborted, and then finishes the rounds in progress. Keeps
 * trying while the database is unreachable. Throws its other errors, `schema_mismatch` and `internal_error`.
 */
export async function feedForever(options: ForeverOptions): Promise<void> {
  const { clock, signal, onTrouble, config } = options;
  // If the directory does not exist at startup, it is most likely a mistake in the configuration, so fail
  // right away.
  if (config.watch !== null) await filesAt(config.watch.directory);
  const polledSources = await openPolledSources({ ...options, settled: false });
  // If polling one source fails for good, also stop the others.
  const failed = new AbortController();
  const ended = AbortSignal.any([signal, failed.signal]);
  const isOver = (): boolean => ended.aborted;
  const pollForever = async ({ everyMs, pollOnce }: PolledSource): Promise<void> => {
    while (!isOver()) {
      let pauseMs = everyMs;
      try {
        await pollOnce();
      } catch (error) {
        if (isOver()) return;
        if (!hasCode(error, 'database_unavailable') && !hasCode(error, 'usage')) throw error;
        pauseMs = Math.min(everyMs, retryAfterTroubleMs);
        onTrouble(error, pauseMs);
      }
      await clock.sleep(pauseMs, ended).catch(() => undefined);
    }
  };
  await allEnded(
    polledSources.map((polledSource) =>
      pollForever(polledSource).catch((error: unknown) => {
        failed.abort();
        throw error;
      }),
    ),
  );
}

/** Waits until all of the work has ended, and then throws the first error. */
async function allEnded(works: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(works)) if (result.status === 'rejected') throw result.reason;
}

async function openPolledSources(
  options: FeedOptions & { intervalMs: number | null; settled: boolean },
): Promise<PolledSource[]> {
  const { target, config, clock, signal, settled, onResult } = options;
  const polledSources = config.nws === null ? [] : await openNwsSources(config.nws, options);
  if (config.watch === null) return polledSources;
  const scan = watchDirectory(config.watch, clock);
  const everyMs = Math.max(minPollMs, config.watch.settleMs / 2);
  return [
    ...polledSources,
    {
      everyMs,
      pollOnce: async () => {
        for (const fed of await scan(target, { settled, signal })) onResult(fed);
      },
    },
  ];
}

async function openNwsSources(
  config: NwsConfig,
  { target, clock, signal, onResult, random, intervalMs }: FeedOptions & { intervalMs: number | null },
): Promise<PolledSource[]> {
  const requests = await openRequests(target);
  const get = createClient({ ...config, clock, signal, random });
  const polling = { target, requests, get, productsUrl: `${config.baseUrl}/products` };
  const byName = new Map<SourceName, PolledDocument[]>();
  for (const source of sourcesOf(config))
    byName.set(source.name, [...(byName.get(source.name) ?? []), source]);
  return [...byName].map(([name, sources]) => ({
    everyMs: intervalMs ?? config.intervals[`${name}Ms`],
    pollOnce: async () => {
      // Load outlooks before their discussions, because a discussion belongs to an outlook.
      for (const part of [isDocument, isList])
        await inParallel(sources.filter(part), config.concurrency, async (source) => {
          for (const fed of await poll(polling, source)) onResult(fed);
        });
    },
  }));
}

const isList = ({ collections }: PolledDocument): boolean => collections !== null;
const isDocument = (source: PolledDocument): boolean => !isList(source);
