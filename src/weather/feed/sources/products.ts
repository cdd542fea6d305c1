import { BrokenDocument } from '../documents/faults.ts';
import { isMap, mapsOf, textOf, type Json } from '../documents/rows.ts';

/** A text product that a list of them names. */
export interface ListedProduct {
  id: string;
  issuedAt: number;
}

/**
 * The newest products of a list, of each of these WMO collections, or of all of them if there are none. Only
 * the id is used and never a URL, so that a list leads nowhere else. Pure.
 */
export function newestProducts(text: string, collections: readonly string[]): ListedProduct[] {
  const document: unknown = JSON.parse(text);
  const graph = isMap(document) ? document['@graph'] : null;
  if (!Array.isArray(graph)) throw new BrokenDocument('@graph is no list of products');
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
  if (Number.isNaN(issuedAt)) throw new BrokenDocument(`the issuanceTime of the product ${id} is no time`);
  return { id, issuedAt };
}
