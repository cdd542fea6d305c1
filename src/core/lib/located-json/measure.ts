/** The size and structure of a JSON text, as far as you can tell without parsing it. */
export interface JsonShape {
  /** How many opening braces and brackets there are. */
  containers: number;
  /** How deep they are nested. */
  depth: number;
  /**
   * Colons outside of strings. If the JSON is valid, this is the number of properties, including duplicates.
   */
  colons: number;
  /** Commas outside of strings. */
  commas: number;
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;

/**
 * Measures a text in a single pass and without allocating memory. Do this first, to refuse a document that
 * would make a parser run out of memory or stack. If the text is not valid JSON, the numbers are only
 * estimates, so the parser still needs its own limits.
 */
export function measureJson(text: string): JsonShape {
  let containers = 0;
  let depth = 0;
  let deepest = 0;
  let colons = 0;
  let commas = 0;
  const end = text.length;
  // Skip strings with `indexOf`, which is fast. For a valid document, this loop is most of the cost apart
  // from parsing.
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

/** Reports whether there is an odd number of backslashes before the quote. */
function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before--;
  return (at - before) % 2 === 0;
}

/*
 * Works with JSON Pointers (RFC 6901).
 */

/** Escapes a key or index so that it can be a segment of a JSON Pointer. */
export function escapePointer(segment: string | number): string {
  return String(segment).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Splits a JSON Pointer into keys and indexes. There are none for the whole document. */
export function pointerSegments(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}
