/** The dimensions of a JSON text, counted without parsing it. */
export interface JsonShape {
  /** The number of opening braces and brackets. */
  containers: number;
  /** The maximum nesting depth. */
  depth: number;
  /** Colons outside strings. In valid JSON, this is the number of properties including duplicates. */
  colons: number;
  /** Commas outside strings. */
  commas: number;
}

const quote = 0x22;
const comma = 0x2c;
const colon = 0x3a;
const backslash = 0x5c;

/**
 * Measures a text in one pass without allocation, so that a document that would exhaust a parser's memory or
 * stack can be rejected first. If the text is not JSON, the numbers are approximate and its reader needs its
 * own limits.
 */
export function measureJson(text: string): JsonShape {
  let containers = 0;
  let depth = 0;
  let deepest = 0;
  let colons = 0;
  let commas = 0;
  const end = text.length;
  // Strings are skipped with the fast `indexOf`, because apart from parsing, this pass is most of the cost of
  // a valid document.
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

/** Returns true if an odd number of backslashes precedes the quote. */
function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === backslash) before--;
  return (at - before) % 2 === 0;
}

/*
 * JSON Pointers (RFC 6901).
 */

/** Escapes a key or index as a segment of a JSON Pointer. */
export function escapePointer(segment: string | number): string {
  return String(segment).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Returns the keys and indexes of a JSON Pointer. The result is empty for the whole document. */
export function pointerSegments(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Formats text from a document for a message: quoted, escaped, and truncated to 60 code units. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 59)}…` : text);
}
