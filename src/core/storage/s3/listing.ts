import type { ListPage, S3Wire } from './wire.ts';

/** All pages of a listing, one request each. `pageSize` null: as many keys per page as the server likes. */
export async function* pagesBelow(
  wire: S3Wire,
  prefix: string,
  { oneLevel, pageSize }: { oneLevel: boolean; pageSize: number | null },
): AsyncIterable<ListPage> {
  let token: string | null = null;
  do {
    const page: ListPage = await wire.list({ prefix, oneLevel, token, pageSize });
    yield page;
    token = page.next;
  } while (token !== null);
}
