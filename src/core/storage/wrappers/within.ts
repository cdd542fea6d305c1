import { joinKey, type Key, listedKey } from '../key.ts';
import type { Entry, LocalFiles, Move, Storage, StorageFacts, UnreadableName } from '../storage.ts';
import { delegate } from './delegate.ts';

/**
 * A view of the part of a storage below one directory. A publication gets only such a view of its
 * destination, so that it cannot reach anything outside the bundle path. Closing the view leaves the
 * storage open. Throws the errors of the storage.
 */
export function within(whole: Storage, directory: Key | ''): Storage {
  if (directory === '') return delegate(whole, { close: async () => undefined });
  const outer = (key: Key): Key => joinKey(directory, key);
  const inner = (entry: Entry): Entry => ({
    ...entry,
    key: listedKey(entry.key.slice(directory.length + 1)),
  });
  const outerMove = (move: Move): Move => ({
    ...move,
    from: outer(move.from),
    to: outer(move.to),
    ...(move.aside === undefined ? {} : { aside: outer(move.aside) }),
  });
  const { localFiles, fixModes, placeOf } = whole.facts;
  return {
    label: `${whole.label}, ${directory}`,
    facts: {
      ...whole.facts,
      localFiles: localFiles === null ? null : filesWithin(localFiles, outer),
      ...(fixModes === undefined ? {} : { fixModes: modesWithin(fixModes, outer) }),
      ...(placeOf === undefined ? {} : { placeOf: (key: Key) => placeOf(outer(key)) }),
    },
    stat: (key) => whole.stat(outer(key)),
    async *list(below, options) {
      const { onUnreadable: tell, ...others } = options;
      const onUnreadable = (found: UnreadableName): void =>
        tell?.({ ...found, directory: listedKey(found.directory.slice(directory.length + 1)) });
      const how = { ...others, ...(tell === undefined ? {} : { onUnreadable }) };
      for await (const entry of whole.list(below === '' ? directory : outer(below), how)) yield inner(entry);
    },
    read: (key, expected) => whole.read(outer(key), expected),
    write: (key, body, options) => whole.write(outer(key), body, options),
    rename: (moves) => whole.rename(moves.map(outerMove)),
    obstacleTo: ({ writes, removes, from, bytes }) =>
      whole.obstacleTo({
        writes: writes.map(outer),
        removes: removes.map(outer),
        from: from === '' ? directory : outer(from),
        bytes,
      }),
    async keep(key, aside) {
      const kept = await whole.keep(outer(key), outer(aside));
      return kept === null ? null : { ...kept, key, aside };
    },
    putBack: (kept) => whole.putBack({ ...kept, key: outer(kept.key), aside: outer(kept.aside) }),
    duplicate: (from, to) => whole.duplicate(outer(from), outer(to)),
    readLink: (key) => whole.readLink(outer(key)),
    // A link is relative to its own directory, wherever that is.
    replaceLink: (key, target) => whole.replaceLink(outer(key), target),
    sync: () => whole.sync(),
    remove: (key, options) => whole.remove(outer(key), options),
    removeTree: (below) => whole.removeTree(outer(below)),
    close: async () => undefined,
  };
}

function modesWithin(
  fixModes: NonNullable<StorageFacts['fixModes']>,
  outer: (key: Key) => Key,
): NonNullable<StorageFacts['fixModes']> {
  return ({ files, directories }, options) => {
    const outerFiles = new Map([...files].map(([key, size]) => [outer(key), size]));
    return fixModes({ files: outerFiles, directories: directories.map(outer) }, options);
  };
}

function filesWithin(files: LocalFiles, outer: (key: Key) => Key): LocalFiles {
  return {
    sizeOf: (key) => files.sizeOf(outer(key)),
  };
}
