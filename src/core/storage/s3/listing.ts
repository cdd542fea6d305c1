import type { Storage } from '../storage.ts';
import { distrusted, maxEmptyPages, maxListed } from '../untrusted.ts';
import type { ListPage, S3Wire } from './wire.ts';

/**
 * All pages of a listing, one request each. `pageSize` null: as many keys per page as the server likes.
 * Throws `storage_permanent` if the server names a key outside the prefix, or if its listing has no end.
 */
export async function* pagesBelow(
  storage: Pick<Storage, 'label'>,
  wire: Pick<S3Wire, 'list'>,
  prefix: string,
  { oneLevel, pageSize }: { oneLevel: boolean; pageSize: number | null },
): AsyncIterable<ListPage> {
  let token: string | null = null;
  let [emptyPages, listed] = [0, 0];
  do {
    const page: ListPage = await wire.list({ prefix, oneLevel, token, pageSize });
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
