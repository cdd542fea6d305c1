/**
 * The word that was probably meant: the known one with the fewest edits (insert, delete, replace, swap of
 * neighbours; "optimal string alignment"), if they are few for its length. `-` and `_` and letter case count
 * as the same. Pure.
 */
export function nearest(word: string, known: readonly string[]): string | undefined {
  // No known word is near to one that is so long, and the search is quadratic in length.
  if (word.length > 64) return undefined;
  let best: { name: string; edits: number } | undefined;
  for (const name of known) {
    const edits = distance(plain(word), plain(name));
    if (edits <= Math.max(1, Math.floor(name.length / 3)) && (best === undefined || edits < best.edits))
      best = { name, edits };
  }
  return best?.name;
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll('-', '_');
}

function distance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replace = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, replace);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        edits = Math.min(edits, (beforeLast[j - 2] ?? 0) + 1);
      row.push(edits);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
