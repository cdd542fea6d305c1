import type { RunMetrics } from '../../api/metrics/run-metrics.ts';
import { lastCommitTime } from '../../core/catalog/managed-paths.ts';
import type { DestinationConfig } from '../../core/config/config.ts';
import { asWaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Owner } from '../../core/storage/identity.ts';
import { storageOpener } from '../../core/storage/open-storage.ts';
import type { RunReader } from '../../workers/queue/job-queue.ts';
import type { RunRecord } from '../../workers/queue/run-record.ts';
import type { ProgramContext } from './bootstrap.ts';

/** A search that runs in the background. */
export interface SuccessSearch {
  /** Resolves when the search has ended or was aborted. Never rejects. */
  readonly done: Promise<void>;
  /** Also searches for destinations that are new in this configuration. */
  extend(next: ConfiguredPipelines): void;
  close(): Promise<void>;
}

/** The parts of the program that change on reload. */
type ConfiguredPipelines = Pick<ProgramContext, 'config' | 'secrets'>;

/** The maximum number of run records to read for each pipeline. */
const maxRecords = 50;
/** The time limit for a destination. If it takes longer, it is skipped. */
const timeoutMs = 60_000;

/**
 * Finds out when each destination was last published to before this process started. This runs in the
 * background. The time comes from the run records in the queue or, if there are none, from the catalogs at
 * the destination. Destinations that are slow or unreachable are skipped, so their time is unknown until
 * their next run.
 *
 * @param found Called for each destination whose time has been found.
 */
export function findLastSuccesses(
  foundation: ProgramContext,
  queue: Pick<RunReader, 'list' | 'overview'>,
  found: Pick<RunMetrics, 'succeededAt'>,
): SuccessSearch {
  const stopping = new AbortController();
  const looked = new Set<string>();
  const isNew = ({ pipelineId, destinationId }: Owner): boolean => {
    const key = JSON.stringify([pipelineId, destinationId]);
    if (looked.has(key)) return false;
    looked.add(key);
    return true;
  };
  const look = (configured: ConfiguredPipelines): Promise<void> =>
    searchPipelines({ ...foundation, ...configured }, { queue, found, isNew, signal: stopping.signal }).catch(
      (error: unknown) =>
        foundation.log.debug(
          { err: error },
          'the time of the last publication to each destination is unknown',
        ),
    );
  let done = look(foundation);
  return {
    get done() {
      return done;
    },
    extend: (next) => void (done = done.then(() => look(next))),
    close: async () => {
      stopping.abort();
      await done;
    },
  };
}

interface SearchContext {
  queue: Pick<RunReader, 'list' | 'overview'>;
  found: Pick<RunMetrics, 'succeededAt'>;
  /** Returns true the first time it is called for a destination. */
  isNew: (place: Owner) => boolean;
  signal: AbortSignal;
}

async function searchPipelines(
  foundation: ProgramContext,
  { queue, found, isNew, signal }: SearchContext,
): Promise<void> {
  const { config, log } = foundation;
  for (const { id: pipelineId, destinations } of config.pipelines) {
    const unknown = destinations.filter(({ id }) => isNew({ pipelineId, destinationId: id }));
    if (unknown.length === 0) continue;
    const known = await fromRecords(queue, pipelineId).catch(() => new Map<string, Date>());
    for (const destination of unknown) {
      if (signal.aborted) return;
      const place = { pipelineId, destinationId: destination.id };
      const at =
        known.get(destination.id) ??
        known.get(anyDestination) ??
        (await fromCatalogs(foundation, place, destination, signal).catch((error: unknown) => {
          const { code } = asWaybillError(error);
          log.debug(
            { pipeline_id: pipelineId, destination_id: destination.id, code },
            'its catalogs cannot be read now',
          );
          return null;
        }));
      if (at !== null) found.succeededAt(place, at);
    }
  }
}

/** Stands for all destinations, if the record of the pipeline's last successful run has expired. */
const anyDestination = '';

/** Returns the time of the newest successful run for each destination. */
async function fromRecords(
  queue: Pick<RunReader, 'list' | 'overview'>,
  pipelineId: string,
): Promise<Map<string, Date>> {
  const [{ runs }, [overview]] = await Promise.all([
    queue.list([pipelineId], { limit: maxRecords }),
    queue.overview([pipelineId]),
  ]);
  const known = new Map<string, Date>();
  for (const record of runs)
    for (const id of succeededDestinations(record))
      if (!known.has(id) && record.finished_at !== null) known.set(id, new Date(record.finished_at));
  const last = overview?.lastSuccess ?? null;
  if (last !== null) known.set(anyDestination, new Date(last.finished_at));
  return known;
}

function succeededDestinations({ destinations, finished_at }: RunRecord): Set<string> {
  if (finished_at === null) return new Set();
  const failed = new Set(destinations.flatMap((one) => (one.error === null ? [] : [one.destination_id])));
  return new Set(destinations.map(({ destination_id }) => destination_id).filter((id) => !failed.has(id)));
}

/**
 * Returns a log that turns everything into debug messages. The search is only best effort, so a failure does
 * not deserve a warning.
 */
function debugOnlyLog(log: Log): Log {
  const debug: Log['debug'] = (fields, message) => log.debug(fields, message);
  return { debug, info: debug, warn: debug, error: debug };
}

async function fromCatalogs(
  { clock, log, secrets }: ProgramContext,
  place: Owner,
  { location, mapping, releases }: DestinationConfig,
  signal: AbortSignal,
): Promise<Date | null> {
  const look = async (): Promise<Date | null> => {
    const storage = await storageOpener({ clock, log: debugOnlyLog(log), secrets })(location, {
      readOnly: true,
      mustExist: true,
    });
    try {
      // With releases, the catalogs are not in the root directory.
      return await lastCommitTime(storage, place, releases === null ? mapping : 'preserve_relative');
    } finally {
      await storage.close();
    }
  };
  // If the search takes too long, abort it and ignore its result.
  const late = new AbortController();
  const tooLate = clock.sleep(timeoutMs, AbortSignal.any([signal, late.signal])).then(
    () => null,
    () => null,
  );
  const looking = look();
  looking.catch(() => undefined);
  return Promise.race([looking, tooLate]).finally(() => late.abort());
}
