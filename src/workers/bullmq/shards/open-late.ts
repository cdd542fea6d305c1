import type { Clock } from '../../../core/lib/clock.ts';
import { hasCode } from '../../../core/lib/errors.ts';
import type { Log } from '../../../core/lib/log.ts';

/** Something that is opened as soon as it can be, which may be later than the process begins. */
export interface Late<T> {
  /** Null as long as it is not open. */
  get(): T | null;
  /** Called once it is open; at once if it is. */
  onOpen(use: (opened: T) => void): void;
  /** Resolves once it is open, or was tried for seconds. Rejects if the first attempt failed for good. */
  readonly tried: Promise<void>;
  /** Tries no more, and waits for an attempt that is under way. What is open stays open. */
  stop(): Promise<void>;
}

const pauseMs = 1_000;
/** As long as a first connection is waited for (`link.ts`): a machine that is busy answers late. */
const patienceMs = 10_000;

/**
 * Opens it, again and again while what is behind it is away (`queue_unavailable`). Anything else that goes
 * wrong at the first attempt is for the caller; later it is logged, and tried again.
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
      log.warn(
        { redis: what, err: error },
        'this redis is away; its pipelines wait for it, the others do not',
      );
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
