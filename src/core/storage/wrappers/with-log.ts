import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../storage.ts';
import { intercept } from './delegate.ts';

type Calls = Required<Storage>;
type LoggedCalls = {
  readonly [Name in keyof Calls]?: Calls[Name] extends (...args: infer Args) => unknown
    ? (...args: Args) => object
    : never;
};

/** The log fields of calls whose arguments are not just keys. */
const described: LoggedCalls = {
  list: (directory, { recursive, stamps }) => ({ directory, recursive, stamps }),
  write: (key, { size }, { mode }) => ({ key, size, mode }),
  rename: (moves) => ({ moves: moves.length, first: moves[0] }),
  obstacleTo: ({ writes, removes, from, bytes }) => ({
    writes: writes.length,
    removes: removes.length,
    from,
    bytes,
  }),
  restore: (kept) => kept,
  fixModes: ({ files, directories }, { dryRun }) => ({
    files: files.size,
    directories: directories.length,
    dryRun,
  }),
};

/**
 * Wraps a storage so that all calls are logged at the debug level, with their keys, how many milliseconds
 * they took, and whether they failed. `list` and `read` are logged when they start, so we do not know yet how
 * they end. Throws the errors of the storage.
 */
export function withLog(storage: Storage, log: Log, clock: Clock): Storage {
  const fieldsOf = (operation: string, args: readonly unknown[]): object => {
    const describe = described[operation as keyof Storage] as ((...args: unknown[]) => object) | undefined;
    const [key, other] = args;
    return { storage: storage.label, operation, ...(describe?.(...args) ?? { key, other }) };
  };
  return intercept(storage, {
    async call(operation, args, run) {
      if (log.isLevelEnabled?.('debug') === false) return run();
      const started = clock.monotonic();
      const fields = (): object => ({
        ...fieldsOf(operation, args),
        ms: Math.round(clock.monotonic() - started),
      });
      try {
        const result = await run();
        log.debug(fields(), 'storage');
        return result;
      } catch (error) {
        log.debug({ ...fields(), err: error }, 'storage failed');
        throw error;
      }
    },
    stream(operation, args, open) {
      log.debug(fieldsOf(operation, args), 'storage');
      return open();
    },
  });
}
