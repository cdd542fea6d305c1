import type { Clock } from '../../clock.ts';
import type { Log } from '../../log.ts';
import type { Storage } from '../storage.ts';

/**
 * A storage that tells each call at level debug: operation, keys, milliseconds, and the failure where it
 * failed.
 */
export function withLog(storage: Storage, log: Log, clock: Clock): Storage {
  const told = async <T>(operation: string, fields: object, work: () => Promise<T>): Promise<T> => {
    const started = clock.monotonic();
    const milliseconds = (): number => Math.round(clock.monotonic() - started);
    try {
      const result = await work();
      log.debug({ storage: storage.label, operation, ...fields, ms: milliseconds() }, 'storage');
      return result;
    } catch (error) {
      log.debug(
        { storage: storage.label, operation, ...fields, ms: milliseconds(), err: error },
        'storage failed',
      );
      throw error;
    }
  };
  return {
    label: storage.label,
    facts: storage.facts,
    stat: (key) => told('stat', { key }, () => storage.stat(key)),
    list: (directory, how) => {
      log.debug({ storage: storage.label, operation: 'list', directory, ...how }, 'storage');
      return storage.list(directory, how);
    },
    read: (key) => {
      log.debug({ storage: storage.label, operation: 'read', key }, 'storage');
      return storage.read(key);
    },
    write: (key, body, how) =>
      told('write', { key, size: body.size, mode: how.mode }, () => storage.write(key, body, how)),
    rename: (moves) => told('rename', { moves: moves.length, first: moves[0] }, () => storage.rename(moves)),
    sync: () => told('sync', {}, () => storage.sync()),
    remove: (key) => told('remove', { key }, () => storage.remove(key)),
    removeTree: (directory) => told('removeTree', { directory }, () => storage.removeTree(directory)),
    close: () => told('close', {}, () => storage.close()),
  };
}
