import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { Log } from '../../../core/lib/log.ts';

/** A resource that opens as soon as possible, which may be after the process has started. */
export interface Late<T> {
  /** null until it is open. */
  get(): T | null;
  /** Calls `use` once it is open; immediately if it is open already. */
  onOpen(use: (opened: T) => void): void;
  /**
   * Resolves once it is open or has been tried for some seconds. Rejects if the first attempt failed
   * permanently.
   */
  readonly tried: Promise<void>;
  /** Stops trying, and waits for an attempt in progress. An open resource stays open. */
  stop(): Promise<void>;
}

const pauseMs = 1_000;
/** The same limit as for a first connection (`link.ts`): a busy machine answers late. */
const patienceMs = 10_000;

/**
 * Opens a resource, and retries while its server is unreachable (`queue_unavailable`). Any other error of the
 * first attempt rejects `tried`. Later errors are logged and retried.
 */
export function openLate<T>(
  open: () => Promise<T>,
  { clock, log, what }: { clock: Clock; log: Log; what: string },
): Late<T> {
  const stopping = new AbortController();
  const uses = new Set<(opened: T) => void>();
  let opened: T | null = null;
  const attempt = async (): Promise<void> => {
    opened = await open();
    for (const use of uses) use(opened);
    uses.clear();
  };
  const begun = clock.monotonic();
  const first = (async (): Promise<void> => {
    for (;;)
      try {
        await attempt();
        return;
      } catch (error) {
        const isPassing = hasCode(error, 'queue_unavailable') && !stopping.signal.aborted;
        if (!isPassing || clock.monotonic() - begun >= patienceMs) throw error;
        await clock.sleep(pauseMs, stopping.signal).catch(() => undefined);
      }
  })();
  const goOn = async (): Promise<void> => {
    try {
      await first;
      return;
    } catch (error) {
      if (!hasCode(error, 'queue_unavailable')) return;
      log.warn({ redis: what, err: error }, 'this redis is unreachable; only its pipelines wait for it');
    }
    let told = '';
    while (!stopping.signal.aborted && opened === null) {
      const isTime = await clock.sleep(pauseMs, stopping.signal).then(
        () => true,
        () => false,
      );
      if (!isTime) return;
      await attempt().then(
        () => log.info({ redis: what }, 'this redis answers now'),
        (error: unknown) => {
          const code = error instanceof Error && 'code' in error ? String(error.code) : '';
          if (code !== 'queue_unavailable' && code !== told)
            log.error({ redis: what, err: error }, 'this redis cannot be used');
          told = code;
        },
      );
    }
  };
  const going = goOn();
  return {
    get: () => opened,
    onOpen: (use) => {
      if (opened === null) uses.add(use);
      else use(opened);
    },
    tried: first.catch((error: unknown) => {
      if (!hasCode(error, 'queue_unavailable')) throw error;
    }),
    stop: async () => {
      stopping.abort();
      await going;
    },
  };
}
