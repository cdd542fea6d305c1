import type { Storage } from '../storage.ts';

/**
 * A storage that passes every call to `inner`, except for the members in `changes`. A copy by spread would
 * lose the methods of a storage that is a class.
 */
export function delegate(inner: Storage, changes: Partial<Storage>): Storage {
  return {
    label: inner.label,
    facts: inner.facts,
    stat: (key) => inner.stat(key),
    list: (directory, options) => inner.list(directory, options),
    read: (key, expected) => inner.read(key, expected),
    write: (key, body, options) => inner.write(key, body, options),
    rename: (moves) => inner.rename(moves),
    obstacleTo: (change) => inner.obstacleTo(change),
    keep: (key, aside) => inner.keep(key, aside),
    putBack: (kept) => inner.putBack(kept),
    duplicate: (from, to) => inner.duplicate(from, to),
    readLink: (key) => inner.readLink(key),
    replaceLink: (key, target) => inner.replaceLink(key, target),
    sync: () => inner.sync(),
    remove: (key, options) => inner.remove(key, options),
    removeTree: (directory) => inner.removeTree(directory),
    close: () => inner.close(),
    ...changes,
  };
}
