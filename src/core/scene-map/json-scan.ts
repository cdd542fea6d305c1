/** What one pass over JSON text tells without parsing it. */
export interface JsonScan {
  /** Objects and arrays that open. */
  containers: number;
  /** How deep they nest. */
  depth: number;
  /** Colons outside strings: in well-formed JSON, the number of properties as written, duplicates counted. */
  colons: number;
}

const quote = 0x22;
const backslash = 0x5c;
const colon = 0x3a;

/** One pass, no allocation; text that is not JSON gives numbers that mean little and does no harm. */
export function scanJson(text: string): JsonScan {
  let containers = 0;
  let depth = 0;
  let deepest = 0;
  let colons = 0;
  const end = text.length;
  // This pass is most of what a sound document costs beside parsing: strings are skipped by `indexOf`, which
  // the engine does many bytes at once.
  for (let index = 0; index < end; index++) {
    const code = text.charCodeAt(index);
    if (code <= 0x20) continue;
    if (code === quote) {
      index = text.indexOf('"', index + 1);
      while (text.charCodeAt(index - 1) === backslash && isEscaped(text, index))
        index = text.indexOf('"', index + 1);
      if (index === -1) break;
      if (text.charCodeAt(index + 1) === colon) {
        colons++;
        index++;
      }
    } else if (code >= 0x5b) {
      if (code === 0x7b || code === 0x5b) {
        containers++;
        if (++depth > deepest) deepest = depth;
      } else if (code === 0x7d || code === 0x5d) depth--;
    } else if (code === colon) colons++;
  }
  return { containers, depth: deepest, colons };
}

/** Whether an odd number of backslashes stands before the quote. */
function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before--;
  return (at - before) % 2 === 0;
}
