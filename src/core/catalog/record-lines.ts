import { isUtf8 } from 'node:buffer';

/*
 * The layout of `serialiseCatalog`, read line by line: a catalog of half a million records as one text, and
 * as one tree of what `JSON.parse` makes of it, takes several times the memory of its records.
 */

const head = Buffer.from('\n  "outputs": [\n');
const tail = Buffer.from('\n  ],\n');

/** Stands for the list of outputs in the rest of the document. */
export const outputsApart = '(outputs, line by line)';

/**
 * Takes the list of outputs out of a catalog that is laid out as `serialiseCatalog` writes it: `rest` is the
 * document with `outputsApart` instead of the list, and `lines` the text of each record. Null if it is laid
 * out otherwise. The caller makes sure that the list was the document's own. Pure.
 */
export function splitOutputs(state: Uint8Array): { rest: Buffer; lines: Iterable<string> } | null {
  const bytes = Buffer.from(state.buffer, state.byteOffset, state.byteLength);
  const start = bytes.indexOf(head);
  const end = start === -1 ? -1 : bytes.indexOf(tail, start + head.length);
  if (end === -1 || !isUtf8(bytes) || bytes.includes(outputsApart)) return null;
  const before = bytes.subarray(0, start);
  const after = bytes.subarray(end + tail.length);
  const rest = Buffer.concat([before, Buffer.from(`\n  "outputs": "${outputsApart}",\n`), after]);
  return { rest, lines: linesOf(bytes, start + head.length, end) };
}

/** The lines without the commas between them. One that lacks its comma is made no JSON at all. */
function* linesOf(bytes: Buffer, start: number, end: number): Iterable<string> {
  for (let from = start; from <= end;) {
    const found = bytes.indexOf(10, from);
    const isLast = found === -1 || found >= end;
    const to = isLast ? end : found;
    const text = bytes.toString('utf8', from, to);
    if (isLast) yield text;
    else yield text.endsWith(',') ? text.slice(0, -1) : `${text} (no comma)`;
    from = to + 1;
  }
}
