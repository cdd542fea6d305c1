import type { Move } from '../capabilities.ts';
import { joinKey, type Key, listedKey } from '../key.ts';
import type { Entry, ListOptions, Storage } from '../storage.ts';
import { delegate } from './delegate.ts';

/**
 * Returns a view of a storage that is limited to one directory. A publication only gets such a view of its
 * destination, so it cannot touch anything outside of its bundle path. Closing the view does not close the
 * storage. Throws the errors of the storage.
 */
export function subdirectory(whole: Storage, directory: Key | ''): Storage {
  const close = async (): Promise<void> => undefined;
  if (directory === '') return delegate(whole, { close });
  const outer = (key: Key): Key => joinKey(directory, key);
  return delegate(whole, {
    label: `${whole.label}, ${directory}`,
    close,
    stat: (key) => whole.stat(outer(key)),
    list: (below, options) => listWithin(whole, directory, below, options),
    read: (key, expected) => whole.read(outer(key), expected),
    write: (key, body, options) => whole.write(outer(key), body, options),
    obstacleTo: ({ writes, removes, from, bytes }) =>
      whole.obstacleTo({
        writes: writes.map(outer),
        removes: removes.map(outer),
        from: from === '' ? directory : outer(from),
        bytes,
      }),
    remove: (key, options) => whole.remove(outer(key), options),
    removeTree: (below) => whole.removeTree(outer(below)),
    ...capabilitiesWithin(whole, outer),
  });
}

async function* listWithin(
  whole: Storage,
  directory: Key,
  below: Key | '',
  { onUnreadable, ...options }: ListOptions,
): AsyncIterable<Entry> {
  const inner = (key: string): Key => listedKey(key.slice(directory.length + 1));
  const entries = whole.list(below === '' ? directory : joinKey(directory, below), {
    ...options,
    onUnreadable: onUnreadable && ((found) => onUnreadable({ ...found, directory: inner(found.directory) })),
  });
  for await (const entry of entries) yield { ...entry, key: inner(entry.key) };
}

function capabilitiesWithin(whole: Storage, outer: (key: Key) => Key): Partial<Storage> {
  const { rename, backUp, restore, duplicate, readLink, replaceLink, fixModes, localFiles, placeOf } =
    delegate(whole, {});
  const outerMove = ({ from, to, aside, ...move }: Move): Move => ({
    ...move,
    from: outer(from),
    to: outer(to),
    aside: aside && outer(aside),
  });
  return {
    rename: rename && ((moves) => rename(moves.map(outerMove))),
    backUp:
      backUp &&
      (async (key, aside) => {
        const backup = await backUp(outer(key), outer(aside));
        return backup === null ? null : { ...backup, key, aside };
      }),
    restore:
      restore && ((backup) => restore({ ...backup, key: outer(backup.key), aside: outer(backup.aside) })),
    duplicate: duplicate && ((from, to) => duplicate(outer(from), outer(to))),
    readLink: readLink && ((key) => readLink(outer(key))),
    // The target is relative to the link's directory, so it does not need the prefix.
    replaceLink: replaceLink && ((key, target) => replaceLink(outer(key), target)),
    fixModes:
      fixModes &&
      (({ files, directories }, options) =>
        fixModes(
          {
            files: new Map([...files].map(([key, size]) => [outer(key), size])),
            directories: directories.map(outer),
          },
          options,
        )),
    localFiles: localFiles && { sizeOf: (key) => localFiles.sizeOf(outer(key)) },
    placeOf: placeOf && ((key) => placeOf(outer(key))),
  };
}
