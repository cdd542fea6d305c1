import { realpathSync } from 'node:fs';
import path from 'node:path';
import { WaybillError } from '../../lib/errors.ts';
import { closeAll } from '../../lib/lifecycle.ts';
import { errnoOf, isAbsent } from '../../lib/system-errors.ts';
import { joinKey, type Key, listedKey, nameOf, parentOf } from '../key.ts';
import type { Entry, FileIdentity, FileStat, ListOptions, Storage, UnreadableName } from '../storage.ts';
import { ListingLimit } from '../untrusted.ts';
import { delegate } from './delegate.ts';

interface FollowOptions {
  /** The absolute path of the storage's root on this machine, or null if it is a remote storage. */
  root: string | null;
  /** Directories on this machine to which links may point, even though they are outside of the root. */
  linksTo: readonly string[];
  /** Opens one of these directories for reading. */
  open: (directory: string) => Promise<Storage>;
  /** The maximum number of links. Only set in tests. */
  maxLinks?: number;
}

/**
 * Returns a view of a storage in which symbolic links look like the files and directories that they point to.
 * Links may point to anything below the root and, on this machine, to anything in `linksTo`. A link is not
 * followed if its target does not exist, is anywhere else, or is a directory that contains the link. Such a
 * link still appears as a link, and `unfollowed` says why.
 *
 * A resolved link is not trusted. The target is always opened through the storage that contains it, and that
 * storage does not follow any links. Even if a directory is replaced by a link at the wrong moment, nothing
 * outside of these directories can be read. Throws the errors of the storages, and `storage_permanent` if
 * there are more than 20,000 links, or more than 250,000 entries below them.
 */
export function followLinks(storage: Storage, options: FollowOptions): Storage {
  const view = new FollowedLinks(storage, options);
  return delegate(storage, {
    localFiles: undefined,
    stat: (key) => view.stat(key),
    list: (directory, how) => view.list(directory, how),
    read: (key, expected) => view.read(key, expected),
    close: () => view.close(),
  });
}

/** A storage, and the absolute path of its root if it is on this machine. */
interface RootedStorage {
  storage: Storage;
  root: string | null;
}

interface FollowedPlace {
  place: RootedStorage;
  key: Key | '';
  /** The file that was listed, if it is on this machine. */
  identity?: FileIdentity | undefined;
}

/** Explains why a link is not followed. Completes the sentence `is a symbolic link to "…", …`. */
type UnfollowedReason = string;

/**
 * Links to directories with more links add up quickly. Twenty such directories can result in a million paths.
 */
const defaultMaxLinks = 20_000;
const maxEntries = 250_000;
/** The kernel has the same limit. */
const maxHops = 40;

class FollowedLinks {
  readonly #main: RootedStorage;
  readonly #options: FollowOptions;
  readonly #opened = new Map<string, Promise<RootedStorage>>();
  readonly #followed = new Map<Key | '', FollowedPlace>();
  /** The number of links followed, and of entries found below them, since the root was last listed. */
  #links = 0;
  #entries = 0;

  constructor(storage: Storage, options: FollowOptions) {
    this.#main = { storage, root: options.root === null ? null : realPath(options.root) };
    this.#options = options;
  }

  async stat(key: Key): Promise<FileStat | undefined> {
    const spot = this.#followedPlaceOf(key);
    if (spot.key === '') return { type: 'directory', size: 0, version: null, modifiedAt: null };
    const found = await spot.place.storage.stat(spot.key);
    if (found?.type !== 'link') return found;
    const entry = await this.#follow(key, spot, {}, new Map());
    return entry.type === 'link' ? found : this.stat(key);
  }

  async *read(key: Key, expected?: FileIdentity): AsyncIterable<Uint8Array> {
    const { place, key: at, identity } = this.#followedPlaceOf(key);
    yield* place.storage.read(listedKey(at), expected ?? identity);
  }

  async *list(directory: Key | '', listOptions: ListOptions): AsyncIterable<Entry> {
    const options = { ...listOptions, limit: listOptions.limit ?? new ListingLimit() };
    if (directory === '') [this.#links, this.#entries] = [0, 0];
    const pending: (Key | '')[] = [directory];
    for (let each = pending.pop(); each !== undefined; each = pending.pop())
      for await (const entry of this.#listLevel(each, options))
        if (options.recursive && entry.type === 'directory') pending.push(entry.key);
        else yield entry;
  }

  async close(): Promise<void> {
    const opened = await Promise.allSettled(this.#opened.values());
    const open = opened.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const closers = [this.#main, ...open].map(
      ({ storage }) =>
        async () =>
          storage.close(),
    );
    await closeAll(...closers);
  }

  async *#listLevel(directory: Key | '', { onUnreadable, stamps, limit }: ListOptions): AsyncIterable<Entry> {
    const spot = this.#followedPlaceOf(directory);
    const how = { stamps, limit };
    const isFollowed = spot.place !== this.#main || spot.key !== directory;
    const seen = new Map<string, Map<string, Entry>>();
    const unreadable = (found: UnreadableName): void => onUnreadable?.({ ...found, directory });
    const named = onUnreadable && { onUnreadable: isFollowed ? unreadable : onUnreadable };
    for await (const entry of spot.place.storage.list(spot.key, { recursive: false, ...how, ...named })) {
      const key = isFollowed ? joinKey(directory, nameOf(entry.key)) : entry.key;
      if (isFollowed) this.#entries += 1;
      if (entry.type === 'link') this.#links += 1;
      this.#refuseTooMany(key);
      if (entry.type !== 'link') {
        this.#followed.delete(key);
        yield { ...entry, key };
      } else yield await this.#follow(key, { place: spot.place, key: entry.key }, how, seen);
    }
  }

  #refuseTooMany(key: Key): void {
    const { maxLinks = defaultMaxLinks } = this.#options;
    if (this.#links <= maxLinks && this.#entries <= maxEntries) return;
    const many = this.#links > maxLinks ? `${maxLinks} symbolic links` : `${maxEntries} files below links`;
    throw new WaybillError(
      'storage_permanent',
      `${this.#main.storage.label}: there are more than ${many}; the last one is "${key}"`,
      { hint: 'remove or exclude links that lead to large directories, or to directories of further links' },
    );
  }

  /** Finds out where a key really is, by looking for the longest followed link that it goes through. */
  #followedPlaceOf(key: Key | ''): FollowedPlace {
    const own = this.#followed.get(key);
    if (own !== undefined) return own;
    for (let above = key; above !== '';) {
      above = parentOf(listedKey(above));
      const spot = this.#followed.get(above);
      const rest = key.slice(above === '' ? 0 : above.length + 1);
      if (spot !== undefined) return { place: spot.place, key: joinKey(spot.key, rest) };
    }
    return { place: this.#main, key };
  }

  /**
   * Returns the entry that a link points to, but with the link's own key. `seen` caches listings for other
   * links.
   */
  async #follow(
    key: Key,
    link: FollowedPlace,
    how: Pick<ListOptions, 'stamps' | 'limit'>,
    seen: Map<string, Map<string, Entry>>,
  ): Promise<Entry> {
    this.#followed.delete(key);
    const text = (await link.place.storage.readLink?.(listedKey(link.key))) ?? '';
    const refused = (reason: UnfollowedReason): Entry => ({
      key,
      type: 'link',
      size: 0,
      unfollowed: `is a symbolic link to "${text}", ${reason}`,
    });
    const target = link.place.root === null ? await this.#walk(link, text) : await this.#resolve(link);
    if (typeof target === 'string') return refused(target);
    const found = await entryAt(target, how, seen);
    if (found === undefined) return refused(nowhere);
    if (found.type === 'link') return refused('which was replaced by a link at the same time; run again');
    if (found.type === 'directory' && this.#containsItself(target, key)) return refused(circular);
    this.#followed.set(key, { ...target, identity: found.identity });
    return { ...found, key, linkTarget: absolute(target) };
  }

  #containsItself(target: FollowedPlace, key: Key): boolean {
    for (let above: Key | '' = key; above !== '';) {
      above = parentOf(above);
      if (absolute(this.#followedPlaceOf(above)) === absolute(target)) return true;
    }
    return false;
  }

  /** Finds the target of a link on this machine. */
  async #resolve(link: FollowedPlace): Promise<FollowedPlace | UnfollowedReason> {
    let real: string;
    try {
      real = realpathSync.native(absolute(link));
    } catch (error) {
      if (isAbsent(error)) return nowhere;
      if (errnoOf(error) === 'ELOOP') return circular;
      return `which cannot be followed (${errnoOf(error) ?? String(error)}); fix or exclude it`;
    }
    for (const root of [this.#main.root, ...this.#options.linksTo.map(realPath)]) {
      const inside = root === null ? null : keyBelow(root, real);
      if (root !== null && inside !== null) return { place: await this.#placeAt(root), key: inside };
    }
    return outside;
  }

  #placeAt(root: string): Promise<RootedStorage> {
    if (root === this.#main.root) return Promise.resolve(this.#main);
    const known = this.#opened.get(root);
    if (known !== undefined) return known;
    const opening = this.#options.open(root).then((storage) => ({ storage, root }));
    this.#opened.set(root, opening);
    opening.catch(() => this.#opened.delete(root));
    return opening;
  }

  /** Finds the target of a link on a remote storage, one path segment at a time. */
  async #walk({ place, key }: FollowedPlace, text: string): Promise<FollowedPlace | UnfollowedReason> {
    let at: Key | '' = '';
    const segments = [...parentOf(listedKey(key)).split('/'), ...text.split('/')];
    let hops = 1;
    if (text.startsWith('/')) return outside;
    for (let name = segments.shift(); name !== undefined; name = segments.shift()) {
      if (name === '' || name === '.') continue;
      if (name === '..' && at === '') return outside;
      if (name === '..') {
        at = parentOf(at as Key);
        continue;
      }
      const next: Key = joinKey(at, name);
      const found = await place.storage.stat(next);
      if (found === undefined) return nowhere;
      const further = found.type === 'link' ? ((await place.storage.readLink?.(next)) ?? '') : null;
      if (further === null) at = next;
      else if (further.startsWith('/')) return outside;
      else if ((hops += 1) > maxHops) return circular;
      else segments.unshift(...further.split('/'));
    }
    return { place, key: at };
  }
}

const nowhere: UnfollowedReason = 'which leads to nothing; fix the link, or exclude it';
const circular: UnfollowedReason = 'which points to a directory that contains it; exclude it';
const outside: UnfollowedReason =
  'which leads out of the source; exclude it, or add the directory to links_to of a local source';

/** Looks up the entry at a place. If that is the root of a storage, it is a directory. */
async function entryAt(
  { place, key }: FollowedPlace,
  how: Pick<ListOptions, 'stamps' | 'limit'>,
  seen: Map<string, Map<string, Entry>>,
): Promise<Entry | undefined> {
  if (key === '') return { key: listedKey(''), type: 'directory', size: 0 };
  const directory = parentOf(key);
  const id = `${place.root ?? ''}\0${directory}`;
  let entries = seen.get(id);
  if (entries === undefined) {
    entries = new Map();
    for await (const entry of place.storage.list(directory, { recursive: false, ...how }))
      entries.set(entry.key, entry);
    seen.set(id, entries);
  }
  return entries.get(key);
}

/** Returns a path that identifies a local file, no matter through which key it was reached. */
function absolute({ place, key }: FollowedPlace): string {
  return place.root === null ? key : path.join(place.root, key);
}

function keyBelow(root: string, real: string): Key | '' | null {
  const relative = path.relative(root, real);
  return relative === '..' || relative.startsWith('../') || path.isAbsolute(relative)
    ? null
    : relative === ''
      ? ''
      : listedKey(relative);
}

function realPath(directory: string): string {
  try {
    return realpathSync.native(directory);
  } catch {
    return path.resolve(directory);
  }
}
