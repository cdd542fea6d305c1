import { escapedName, quotedName } from '../../lib/text.ts';
import { type Key, listedKey, nameOf, splitAtInvalidSegment } from '../key.ts';
import type { Entry, ListOptions, Storage, UnreadableName } from '../storage.ts';
import { distrusted, ListingLimit, maxEmptyPages, sizeFrom } from '../untrusted.ts';
import type { ListPage, OpenUpload, UploadPage } from './objects.ts';
import type { BucketClient } from './s3-client.ts';

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
  { recursive, onUnreadable, limit = new ListingLimit() }: ListOptions,
): AsyncIterable<Entry> {
  if (!recursive) limit.enter(source, directory);
  const below = directory === '' ? prefix : `${prefix}${directory}/`;
  const files = ({ objects }: ListPage): Entry[] =>
    objects.flatMap((object) => fileOf(source, object, prefix));
  for await (const page of pagesBelow(source, below, { oneLevel: !recursive, limit })) {
    for (const file of files(page)) {
      const odd = onUnreadable && splitAtInvalidSegment(file.key);
      if (odd) onUnreadable(unreadable(odd, 'file'));
      else yield file;
    }
    for (const name of page.prefixes) {
      const key = listedKey(name.slice(prefix.length, -1));
      const odd = splitAtInvalidSegment(key);
      if (odd !== null && onUnreadable !== undefined)
        onUnreadable(unreadable({ ...odd, rest: `${odd.rest}/` }, 'directory'));
      // In "a//b", there is a directory without a name. It cannot be addressed, so list the objects in it
      // instead.
      else if (nameOf(key) === '')
        for await (const inner of pagesBelow(source, name, { oneLevel: false, limit })) yield* files(inner);
      else yield { key, type: 'directory', size: 0 };
    }
  }
}

/** Ignores empty objects whose names end with "/". Consoles create them to show directories. */
function fileOf(
  storage: Pick<Storage, 'label'>,
  { key, size: listedSize, version, modifiedAt }: ListPage['objects'][number],
  prefix: string,
): Entry[] {
  const size = sizeFrom(storage, key, listedSize);
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
  { oneLevel, limit = new ListingLimit() }: { oneLevel: boolean; limit?: ListingLimit },
): AsyncIterable<ListPage> {
  const check = pageCheck({ label }, prefix, limit);
  let token: string | null = null;
  do {
    const page: ListPage = await client.list({ prefix, oneLevel, token, pageSize });
    check([...page.objects.map(({ key }) => key), ...page.prefixes]);
    if (page.next !== null && page.next === token)
      throw distrusted({ label }, 'the listing repeats its continuation token');
    yield page;
    token = page.next;
  } while (token !== null);
}

/**
 * Lists the uploads below a prefix that were started, but neither completed nor aborted. Throws
 * `storage_permanent` like `pagesBelow`.
 */
export async function unfinishedUploads(
  { client, label }: { client: Pick<BucketClient, 'uploads'>; label: string },
  prefix: string,
  limit = new ListingLimit(),
): Promise<OpenUpload[]> {
  const check = pageCheck({ label }, prefix, limit);
  const found: OpenUpload[] = [];
  for (let page: UploadPage | null = null; page?.next !== null;) {
    page = await client.uploads(prefix, page?.next ?? {});
    check(page.uploads.map(({ key }) => key));
    for (const upload of page.uploads) {
      limit.add({ label }, upload.uploadId);
      found.push(upload);
    }
  }
  return found;
}

/**
 * Returns a function that checks the names of each page. It throws `storage_permanent` if there is a reason
 * not to trust the server.
 */
function pageCheck(
  storage: Pick<Storage, 'label'>,
  prefix: string,
  limit: ListingLimit,
): (names: readonly string[]) => void {
  let emptyPages = 0;
  return (names) => {
    for (const name of names) {
      if (!name.startsWith(prefix) || name.includes('\0'))
        throw distrusted(storage, `${quotedName(name)} is not below ${JSON.stringify(prefix)}`);
      limit.add(storage, name);
    }
    emptyPages = names.length === 0 ? emptyPages + 1 : 0;
    if (emptyPages > maxEmptyPages) throw distrusted(storage, 'the listing has too many empty pages');
  };
}
