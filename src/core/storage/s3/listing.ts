import { escapedName } from '../../lib/text.ts';
import { type Key, listedKey, nameOf, splitAtOddSegment } from '../key.ts';
import type { Entry, ListOptions, Storage, UnreadableName } from '../storage.ts';
import { distrusted, maxEmptyPages, maxListed } from '../untrusted.ts';
import type { BucketClient } from './client.ts';
import type { ListPage } from './objects.ts';

export interface ListingSource {
  client: Pick<BucketClient, 'list'>;
  /** The name of the storage in messages. */
  label: string;
  /** The number of keys per page, or null for the server's default. */
  pageSize: number | null;
}

/** Implements `Storage.list` for a storage whose keys start with `prefix`. */
export async function* listEntries(
  source: ListingSource,
  prefix: string,
  directory: Key | '',
  { recursive, onUnreadable }: ListOptions,
): AsyncIterable<Entry> {
  const below = directory === '' ? prefix : `${prefix}${directory}/`;
  const files = ({ objects }: ListPage): Entry[] => objects.flatMap((object) => fileOf(object, prefix));
  for await (const page of pagesBelow(source, below, { oneLevel: !recursive })) {
    for (const file of files(page)) {
      const odd = onUnreadable && splitAtOddSegment(file.key);
      if (odd) onUnreadable(unreadable(odd, 'file'));
      else yield file;
    }
    for (const name of page.prefixes) {
      const key = listedKey(name.slice(prefix.length, -1));
      const odd = splitAtOddSegment(key);
      if (odd !== null && onUnreadable !== undefined)
        onUnreadable(unreadable({ ...odd, rest: `${odd.rest}/` }, 'directory'));
      // In "a//b", there is a directory without a name. It can't be addressed, so list the objects in it
      // instead.
      else if (nameOf(key) === '')
        for await (const inner of pagesBelow(source, name, { oneLevel: false })) yield* files(inner);
      else yield { key, type: 'directory', size: 0 };
    }
  }
}

/** Ignores empty objects whose names end with "/". Consoles create them to show directories. */
function fileOf({ key, size, version, modifiedAt }: ListPage['objects'][number], prefix: string): Entry[] {
  if (size === 0 && key.endsWith('/')) return [];
  const file = { key: listedKey(key.slice(prefix.length)), type: 'file' as const, size };
  if (version === null || modifiedAt === null) return [file];
  return [{ ...file, stamp: { id: `${size}-${version}`, modifiedAt, isExact: true } }];
}

function unreadable(
  { directory, rest }: { directory: Key | ''; rest: string },
  type: Entry['type'],
): UnreadableName {
  return { reason: 'no_path', directory, decoded: rest, escaped: escapedName(Buffer.from(rest)), type };
}

/**
 * Yields all pages of a listing, with one request for each page. Throws `storage_permanent` if the server
 * lists a key outside of the prefix or never stops listing.
 */
export async function* pagesBelow(
  { client, label, pageSize }: ListingSource,
  prefix: string,
  { oneLevel }: { oneLevel: boolean },
): AsyncIterable<ListPage> {
  const storage: Pick<Storage, 'label'> = { label };
  let token: string | null = null;
  let [emptyPages, listed] = [0, 0];
  do {
    const page: ListPage = await client.list({ prefix, oneLevel, token, pageSize });
    const names = [...page.objects.map(({ key }) => key), ...page.prefixes];
    const stray = names.find((name) => !name.startsWith(prefix) || name.includes('\0'));
    if (stray !== undefined)
      throw distrusted(storage, `${JSON.stringify(stray)} is not below ${JSON.stringify(prefix)}`);
    if (page.next !== null && page.next === token)
      throw distrusted(storage, 'the listing repeats its continuation token');
    emptyPages = names.length === 0 ? emptyPages + 1 : 0;
    listed += names.length;
    if (listed > maxListed) throw distrusted(storage, `it lists more than ${maxListed} names`);
    if (emptyPages > maxEmptyPages) throw distrusted(storage, 'the listing goes on without naming anything');
    yield page;
    token = page.next;
  } while (token !== null);
}
