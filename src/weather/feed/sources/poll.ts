import { isRecord } from '../../../core/lib/json-document.ts';
import { BrokenDocument, type Json, mapsOf, reasonOf, textOf } from '../documents/rows.ts';
import { feedDocument, type FeedResult, notFed } from '../feed-document.ts';
import { load, lookUp } from '../tables/load-document.ts';
import { confirm } from '../tables/polls.ts';
import type { LoadedDocuments } from '../tables/requests.ts';
import type { WritableDatabase } from '../tables/upsert.ts';
import { type FeedAnswer, type Get, RequestFailed } from './http-client.ts';
import type { PolledDocument } from './requests-of.ts';

/**
 * Polls a source once and stores new data. Failed requests and invalid documents are reported, and the next
 * poll tries them again. Throws the database's errors. If the signal of `get` is aborted, throws its reason.
 */
export async function poll(polling: PollContext, source: PolledDocument): Promise<FeedResult[]> {
  if (source.hasPages) return pollPages(polling, source);
  const { target, requests, get } = polling;
  const { url, fileName: name } = source;
  const answer = await answered(get, url, await requests.get(url));
  if (answer instanceof RequestFailed) return [notFed(url, 'failed', answer.message)];
  if (answer.kind === 'same') {
    const { polled } = source;
    if (polled !== null)
      await load(target, [], (statements) => confirm(statements, polled, answer.at.toISOString()));
    return [notFed(url, 'unchanged', null)];
  }
  if (source.collections !== null) return pollProducts(polling, source, answer);
  const { text, at, validators } = answer;
  return [
    await feedDocument(target, {
      place: url,
      name,
      text,
      receivedAt: at,
      alongside: (statements) => requests.put(statements, url, validators),
    }),
  ];
}

/**
 * Polls a list of products. The list's validators are only stored if all of its products could be fetched, so
 * that the next poll tries again otherwise.
 */
async function pollProducts(
  { target, requests, get, productsUrl }: PollContext,
  { url, collections }: PolledDocument,
  { text, validators }: FeedAnswer & { kind: 'fresh' },
): Promise<FeedResult[]> {
  let products: ListedProduct[];
  try {
    products = newestProducts(text, collections ?? []);
  } catch (error) {
    return [notFed(url, 'failed', reasonOf(error))];
  }
  const fed: FeedResult[] = [];
  for (const { id } of products) {
    if (await isLoaded(target, id)) continue;
    const place = `${productsUrl}/${id}`;
    const answer = await answered(get, place, null);
    if (answer instanceof RequestFailed) fed.push(notFed(place, 'failed', answer.message));
    else if (answer.kind === 'fresh')
      fed.push(
        await feedDocument(target, { place, name: `${id}.json`, text: answer.text, receivedAt: answer.at }),
      );
  }
  if (!fed.some(({ outcome }) => outcome === 'failed'))
    await load(target, [], (statements) => requests.put(statements, url, validators));
  return fed.length === 0 ? [notFed(url, 'unchanged', null)] : fed;
}

async function isLoaded(target: WritableDatabase, id: string): Promise<boolean> {
  const [found] = await lookUp(
    target,
    `select 1 as one from forecast_discussions where product_id = $1
     union all select 1 from outlook_discussions where product_id = $1 limit 1`,
    [id],
  );
  return found !== undefined;
}

interface PollContext {
  target: WritableDatabase;
  requests: LoadedDocuments;
  get: Get;
  /** The base URL of products. A product is at `<base>/products/<id>`. */
  productsUrl: string;
}

/**
 * Returns the response, or the error if the request failed. If the signal of `get` is aborted, throws its
 * reason.
 */
async function answered(
  get: Get,
  url: string,
  known: Parameters<Get>[1],
): Promise<FeedAnswer | RequestFailed> {
  try {
    return await get(url, known);
  } catch (error) {
    if (error instanceof RequestFailed) return error;
    throw error;
  }
}

/** A safety limit. The longest list has about 20 pages, with 500 items each. */
const maxPages = 100;
const maxCursorChars = 1000;

/**
 * Fetches those pages of a list that have changed, and stores each of them separately. Every page is stored
 * along with the cursor of the next one, so that we can continue after an unchanged page. Throws the
 * database's errors. If the signal of `get` is aborted, throws its reason.
 */
async function pollPages(
  { target, requests, get }: PollContext,
  { url, fileName: name }: PolledDocument,
): Promise<FeedResult[]> {
  const fed: FeedResult[] = [];
  const seen = new Set<string>();
  for (let place: string | null = url; place !== null;) {
    const page: string = place;
    if (seen.has(page)) return [...fed, notFed(page, 'failed', 'pagination.next leads back to this page')];
    if (seen.size === maxPages)
      return [...fed, notFed(page, 'failed', `the list has more than ${maxPages} pages`)];
    seen.add(page);
    const known = requests.keepsCursors ? await requests.get(page) : null;
    const answer = await answered(get, page, known);
    // Without this page, we do not know where the others are. The next round will try again.
    if (answer instanceof RequestFailed) return [...fed, notFed(page, 'failed', answer.message)];
    let cursor = known?.cursor ?? null;
    if (answer.kind === 'same') fed.push(notFed(page, 'unchanged', null));
    else {
      const { text, at, validators } = answer;
      cursor = cursorOf(text);
      // Store the cursor together with the page. If it were missing, the page would look like the last one.
      const alongside = async (statements: Parameters<typeof requests.put>[0]): Promise<void> => {
        if (requests.keepsCursors) await requests.put(statements, page, { ...validators, cursor });
      };
      fed.push(await feedDocument(target, { place: page, name, text, receivedAt: at, alongside }));
    }
    place = cursor === null ? null : `${url}&cursor=${encodeURIComponent(cursor)}`;
  }
  return fed;
}

/**
 * Returns the cursor of the next page, or null if there are no more pages or the document is invalid. The
 * list ends with an empty page. For security, only the cursor is taken from the URL of the next page.
 */
function cursorOf(text: string): string | null {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // The error is reported when the document is loaded.
    return null;
  }
  if (!isRecord(document) || !Array.isArray(document['features']) || document['features'].length === 0)
    return null;
  const next = isRecord(document['pagination']) ? textOf(document['pagination']['next']) : null;
  if (next === null || !URL.canParse(next, 'http://localhost')) return null;
  const cursor = new URL(next, 'http://localhost').searchParams.get('cursor') ?? '';
  return cursor === '' || cursor.length > maxCursorChars ? null : cursor;
}

/** An entry in a list of text products. */
interface ListedProduct {
  id: string;
  issuedAt: number;
}

/**
 * Returns the newest product from each of these WMO collections or, if there are none, the newest product in
 * the list. For security, uses only the products' ids and not their URLs, so that a list cannot send us to
 * another server.
 */
function newestProducts(text: string, collections: readonly string[]): ListedProduct[] {
  const document: unknown = JSON.parse(text);
  const graph = isRecord(document) ? document['@graph'] : null;
  if (!Array.isArray(graph)) throw new BrokenDocument('@graph is not a list of products');
  const listed = mapsOf(graph);
  const groups =
    collections.length === 0
      ? [listed]
      : collections.map((name) => listed.filter((item) => item['wmoCollectiveId'] === name));
  return groups.flatMap((group) => {
    const [newest] = group.map(productOf).sort((a, b) => b.issuedAt - a.issuedAt);
    return newest ?? [];
  });
}

function productOf(item: Json): ListedProduct {
  const id = textOf(item['id']) ?? '';
  if (!/^[0-9a-f-]{8,64}$/i.test(id)) throw new BrokenDocument('@graph has a product without an id');
  const issuedAt = Date.parse(textOf(item['issuanceTime']) ?? '');
  if (Number.isNaN(issuedAt)) throw new BrokenDocument(`the issuanceTime of the product ${id} is not a time`);
  return { id, issuedAt };
}
