import { isMap, textOf } from '../documents/rows.ts';
import { feedDocument, notFed, type Fed } from '../feed-document.ts';
import { RequestFailed } from '../http/request.ts';
import { answered, type Polling } from './asking.ts';
import type { Source } from './requests-of.ts';

/** The longest list has some 20 pages of 500. */
const mostPages = 100;
const longestCursor = 1000;

/**
 * Asks for a list that comes in pages, each on the condition that it has changed, and writes each by itself.
 * Where a page ends is remembered with it, so that the next one is asked for although this one has not
 * changed. Throws what the database throws, and the reason of the signal of `get`.
 */
export async function pollPages(
  { target, requests, get }: Polling,
  { url, fileName: name }: Source,
): Promise<Fed[]> {
  const fed: Fed[] = [];
  const seen = new Set<string>();
  for (let place: string | null = url; place !== null;) {
    const page: string = place;
    if (seen.has(page)) return [...fed, notFed(page, 'failed', 'pagination.next leads back to this page')];
    if (seen.size === mostPages)
      return [...fed, notFed(page, 'failed', `the list goes on after ${mostPages} pages`)];
    seen.add(page);
    const known = requests.keepsCursors ? await requests.get(page) : null;
    const answer = await answered(get, page, known);
    // What follows stays unknown; the next round asks again.
    if (answer instanceof RequestFailed) return [...fed, notFed(page, 'failed', answer.message)];
    let cursor = known?.cursor ?? null;
    if (answer.kind === 'same') fed.push(notFed(page, 'unchanged', null));
    else {
      const { text, at, validators } = answer;
      cursor = cursorOf(text);
      // Remembered without its cursor, a page would be the last one.
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
 * Where the next page begins; null after the last, and where that cannot be told. The service has a next page
 * after the last one too, which is empty. Only the cursor is used and never the URL. Pure.
 */
export function cursorOf(text: string): string | null {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // Loading it says what is wrong.
    return null;
  }
  if (!isMap(document) || !Array.isArray(document['features']) || document['features'].length === 0)
    return null;
  const next = isMap(document['pagination']) ? textOf(document['pagination']['next']) : null;
  if (next === null || !URL.canParse(next, 'http://localhost')) return null;
  const cursor = new URL(next, 'http://localhost').searchParams.get('cursor') ?? '';
  return cursor === '' || cursor.length > longestCursor ? null : cursor;
}
