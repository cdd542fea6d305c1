import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { Storage } from '../storage.ts';

/**
 * Wraps a storage so that each call is logged at level debug, with its operation, keys, duration in
 * milliseconds and failure. `list` and `read` are logged when they start, without duration and failure.
 * Throws the errors of the storage.
 */
export function withLog(storage: Storage, log: Log, clock: Clock): Storage {
  const logged = async <T>(operation: string, fields: object, work: () => Promise<T>): Promise<T> => {
    if (log.isLevelEnabled?.('debug') === false) return work();
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
    stat: (key) => logged('stat', { key }, () => storage.stat(key)),
    list: (directory, how) => {
      log.debug({ storage: storage.label, operation: 'list', directory, ...how }, 'storage');
      return storage.list(directory, how);
    },
    read: (key, expected) => {
      log.debug({ storage: storage.label, operation: 'read', key }, 'storage');
      return storage.read(key, expected);
    },
    write: (key, body, how) =>
      logged('write', { key, size: body.size, mode: how.mode }, () => storage.write(key, body, how)),
    rename: (moves) =>
      logged('rename', { moves: moves.length, first: moves[0] }, () => storage.rename(moves)),
    obstacleTo: (change) => {
      const { writes, removes, from, bytes } = change;
      const counts = { writes: writes.length, removes: removes.length };
      return logged('obstacleTo', { ...counts, from, bytes }, () => storage.obstacleTo(change));
    },
    keep: (key, aside) => logged('keep', { key, aside }, () => storage.keep(key, aside)),
    putBack: (kept) => logged('putBack', kept, () => storage.putBack(kept)),
    duplicate: (from, to) => logged('duplicate', { from, to }, () => storage.duplicate(from, to)),
    readLink: (key) => logged('readLink', { key }, () => storage.readLink(key)),
    replaceLink: (key, target) =>
      logged('replaceLink', { key, target }, () => storage.replaceLink(key, target)),
    sync: () => logged('sync', {}, () => storage.sync()),
    remove: (key, options) => logged('remove', { key }, () => storage.remove(key, options)),
    removeTree: (directory) => logged('removeTree', { directory }, () => storage.removeTree(directory)),
    close: () => logged('close', {}, () => storage.close()),
  };
}
