/**
 * A document that the reader has no use for (an error of the source, an empty list, another kind), and why.
 */
export class NothingToLoad extends Error {
  override readonly name = 'NothingToLoad';
}

/**
 * A document of a known kind, or an item of its list, that is broken. The message begins with what is wrong
 * in it, as `features[3].properties.sent is missing`.
 */
export class BrokenDocument extends Error {
  override readonly name = 'BrokenDocument';
}

/**
 * The results of `read` for each item. A broken item is left out and named in `leftOut` by its place in the
 * list, as is each field that `read` notes; a list of which nothing is left is broken itself.
 */
export function readEach<Item, Result>(
  items: readonly Item[],
  list: string,
  leftOut: string[],
  read: (item: Item, note: (message: string) => void, place: string) => Result,
): Result[] {
  const broken: string[] = [];
  const results = items.flatMap((item, index) => {
    const place = `${list}[${index}]`;
    try {
      return [read(item, (message) => leftOut.push(`${place}: ${message}`), place)];
    } catch (error) {
      broken.push(`${place}: ${reasonOf(error)}`);
      return [];
    }
  });
  if (results.length === 0 && broken.length > 0) throw new BrokenDocument(broken[0]);
  leftOut.push(...broken);
  return results;
}

/**
 * In a word or two: what a document can hold is not foreseen in full, so whatever reading it throws is its
 * fault.
 */
export function reasonOf(error: unknown): string {
  if (error instanceof BrokenDocument || error instanceof NothingToLoad) return error.message;
  if (error instanceof SyntaxError) return `it is no JSON: ${error.message}`;
  return `it is not of the form that is known (${error instanceof Error ? error.message : String(error)})`;
}
