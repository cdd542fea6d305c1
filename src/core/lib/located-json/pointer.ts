/*
 * JSON Pointers (RFC 6901).
 */

/** Escapes a key or index as a segment of a JSON Pointer. */
export function escapePointer(segment: string | number): string {
  return String(segment).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The keys and indexes of a JSON Pointer; empty for the whole document. */
export function pointerSegments(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

/** Formats text from a document for a message: quoted, escaped, and cut after 60 code units. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 59)}…` : text);
}
