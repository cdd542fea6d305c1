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
 * What `read` makes of each item. An item that is broken is left out, and named in `leftOut` by its place in
 * the list; a list of which nothing is left is broken itself.
 */
export function readEach<Item, Result>(
  items: readonly Item[],
  list: string,
  leftOut: string[],
  read: (item: Item) => Result,
): Result[] {
  const results = items.flatMap((item, index) => {
    try {
      return [read(item)];
    } catch (error) {
      leftOut.push(`${list}[${index}]: ${reasonOf(error)}`);
      return [];
    }
  });
  if (results.length === 0 && leftOut.length > 0) throw new BrokenDocument(leftOut[0]);
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
