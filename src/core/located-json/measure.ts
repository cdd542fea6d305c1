/** The shape of a JSON text, counted without parsing it. */
export interface JsonShape {
  /** Objects and arrays that open. */
  containers: number;
  /** Levels of objects and arrays within each other. */
  depth: number;
  /** Colons outside strings: in well-formed JSON, the number of properties as written, duplicates counted. */
  colons: number;
  /** Commas outside strings. */
  commas: number;
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;

/**
 * Measures a text in one pass without allocation, so that a document that would exhaust the memory or the
 * stack of a parser is refused before it reaches one. If the text is not JSON the numbers are approximate,
 * and whatever reads such a text must have limits of its own. Pure.
 */
export function measureJson(text: string): JsonShape {
  let containers = 0;
  let depth = 0;
  let deepest = 0;
  let colons = 0;
  let commas = 0;
  const end = text.length;
  // Strings are skipped by `indexOf`, which looks at many characters at once: this pass is most of what a
  // valid document costs besides parsing.
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
    } else if (code === comma) commas++;
    else if (code === colon) colons++;
  }
  return { containers, depth: deepest, colons, commas };
}

/** Whether an odd number of backslashes precedes the quote. */
function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before--;
  return (at - before) % 2 === 0;
}
