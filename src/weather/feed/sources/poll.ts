import { reasonOf } from '../documents/faults.ts';
import { feedDocument, notFed, type Fed } from '../feed-document.ts';
import { RequestFailed, type Answer } from '../http/request.ts';
import { load, lookUp } from '../tables/load.ts';
import { confirm } from '../tables/polls.ts';
import type { Target } from '../tables/target.ts';
import { answered, type Polling } from './asking.ts';
import { pollPages } from './pages.ts';
import { newestProducts, type ListedProduct } from './products.ts';
import type { Source } from './requests-of.ts';

/**
 * Asks once for a source and writes what is new. A request that fails and a document that is broken are
 * reported; the next poll tries again. Throws what the database throws, and the reason of the signal of
 * `get`.
 */
export async function poll(polling: Polling, source: Source): Promise<Fed[]> {
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

/** The list is remembered only once everything that it names was had. */
async function pollProducts(
  { target, requests, get, productsUrl }: Polling,
  { url, collections }: Source,
  { text, validators }: Answer & { kind: 'fresh' },
): Promise<Fed[]> {
  let products: ListedProduct[];
  try {
    products = newestProducts(text, collections ?? []);
  } catch (error) {
    return [notFed(url, 'failed', reasonOf(error))];
  }
  const fed: Fed[] = [];
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

async function isLoaded(target: Target, id: string): Promise<boolean> {
  const [found] = await lookUp(
    target,
    `select 1 as one from forecast_discussions where product_id = $1
     union all select 1 from outlook_discussions where product_id = $1 limit 1`,
    [id],
  );
  return found !== undefined;
}
