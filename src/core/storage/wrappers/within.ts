import type { Move } from '../capabilities.ts';
import { joinKey, type Key, listedKey } from '../key.ts';
import type { Entry, Storage, UnreadableName } from '../storage.ts';
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
    aside: move.aside && outer(move.aside),
  });
  const { rename, keep, putBack, duplicate, readLink, replaceLink, fixModes, localFiles, placeOf } = delegate(
    whole,
    {},
  );
  return delegate(whole, {
    label: `${whole.label}, ${directory}`,
    stat: (key) => whole.stat(outer(key)),
    async *list(below, { onUnreadable: report, ...others }) {
      const onUnreadable =
        report &&
        ((found: UnreadableName): void =>
          report({ ...found, directory: listedKey(found.directory.slice(directory.length + 1)) }));
      const how = { ...others, onUnreadable };
      for await (const entry of whole.list(below === '' ? directory : outer(below), how)) yield inner(entry);
    },
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
    close: async () => undefined,
    rename: rename && ((moves) => rename(moves.map(outerMove))),
    keep:
      keep &&
      (async (key, aside) => {
        const kept = await keep(outer(key), outer(aside));
        return kept === null ? null : { ...kept, key, aside };
      }),
    putBack: putBack && ((kept) => putBack({ ...kept, key: outer(kept.key), aside: outer(kept.aside) })),
    duplicate: duplicate && ((from, to) => duplicate(outer(from), outer(to))),
    readLink: readLink && ((key) => readLink(outer(key))),
    // A link is relative to its own directory, wherever that is.
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
  });
}
