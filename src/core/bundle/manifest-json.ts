import { finding, type Finding } from '../finding.ts';
import { escapeSegment, scanJson } from './json-scan.ts';

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** One thing that is wrong, before its line and column are looked up. */
export interface Problem {
  code: string;
  pointer: string;
  message: string;
}

/** Nothing that reads a manifest needs more, and deeper nesting would be a way to exhaust the stack of whoever does. */
const maxDepth = 64;
/** A message with ten thousand findings helps nobody. */
const maxFindings = 100;

export interface JsonDocument {
  /** Undefined where the bytes are not JSON. */
  value: JsonValue | undefined;
  problems: Problem[];
  /** Problems as findings with line and column, in the order of the text. Scans the text once, so it is called once, at the end. */
  locate(problems: readonly Problem[]): Finding[];
}

/** Bytes to a JSON value, telling all that `JSON.parse` forgives or does not explain. Linear in the number of bytes. Pure. */
export function readJsonDocument(bytes: Uint8Array, file: string): JsonDocument {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const raw = buffer.toString('utf8');
  const badByte = firstBadByte(buffer, raw);
  if (badByte !== null) {
    const place = placeOf(raw, buffer.subarray(0, badByte).toString('utf8').length);
    const bad = finding('error', 'invalid_utf8', 'is not valid UTF-8; save it as UTF-8', { file, pointer: '', ...place });
    return { value: undefined, problems: [], locate: () => [bad] };
  }
  const hasMark = raw.startsWith('\ufeff');
  const text = hasMark ? raw.slice(1) : raw;
  const problems: Problem[] = [];
  if (hasMark) problems.push({ code: 'byte_order_mark', pointer: '', message: 'begins with a byte order mark; save it as UTF-8 without one' });

  let value: JsonValue | undefined;
  try {
    value = JSON.parse(text) as JsonValue;
    problems.push(...oddValues(text, value));
  } catch {
    // The scan below says what is wrong, and where, in the same words on every version of Node.
    value = undefined;
  }
  return { value, problems, locate: (all) => locate(text, file, value === undefined, all) };
}

function locate(text: string, file: string, isBroken: boolean, problems: readonly Problem[]): Finding[] {
  if (!isBroken && problems.length === 0) return [];
  const scan = scanJson(
    text,
    problems.map(({ pointer }) => pointer),
  );
  const placed = problems
    .filter(({ code }) => code !== 'duplicate_key')
    .map((problem) => ({ ...problem, offset: scan.offsetOf(problem.pointer) }));
  for (const { pointer, offset } of scan.duplicates)
    placed.push({ code: 'duplicate_key', pointer, offset, message: 'this key stands here for the second time; keep one' });
  if (scan.error !== null) placed.push({ code: 'invalid_json', pointer: '', ...scan.error, message: `is not JSON: ${scan.error.message}` });
  placed.sort((a, b) => a.offset - b.offset);

  const findings: Finding[] = [];
  const lines = lineCounter(text);
  for (const { code, message, pointer, offset } of placed.slice(0, maxFindings))
    findings.push(finding('error', code, message, { file, pointer, ...lines(offset) }));
  if (placed.length > maxFindings)
    findings.push(finding('error', 'more_findings', `${placed.length - maxFindings} more things are wrong; mend these first`, { file }));
  return findings;
}

/** Looks at every value once: duplicate keys (the text has more keys than the value), nesting, strings and numbers that have no JSON form. */
function oddValues(text: string, root: JsonValue): Problem[] {
  const problems: Problem[] = [];
  let keys = 0;
  const pending: Container[] = [];
  const look = (value: JsonValue, parent: Container | null, segment: string | number): void => {
    const tell = (code: string, message: string): void => {
      if (problems.length <= maxFindings) problems.push({ code, message, pointer: pointerTo(parent, segment) });
    };
    if (typeof value === 'string') {
      if (!value.isWellFormed()) tell('lone_surrogate', 'holds half of a surrogate pair, which is no character');
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value)) tell('number_out_of_range', 'is too large a number');
    } else if (typeof value === 'object' && value !== null) {
      const depth = parent === null ? 1 : parent.depth + 1;
      if (depth <= maxDepth) pending.push({ value, parent, segment, depth });
      else tell('too_deep', `is nested deeper than ${maxDepth} levels`);
    }
  };
  look(root, null, '');
  for (let container = pending.pop(); container !== undefined; container = pending.pop()) {
    const { value } = container;
    if (Array.isArray(value)) {
      for (let index = 0; index < value.length; index += 1) look(value[index] as JsonValue, container, index);
      continue;
    }
    for (const key of Object.keys(value)) {
      keys += 1;
      look(key, container, key);
      look(value[key] as JsonValue, container, key);
    }
  }
  // Below `maxDepth` nothing was counted, and such a document is refused anyway.
  const isCounted = problems.length === 0;
  if (isCounted && countKeys(text) !== keys) problems.push({ code: 'duplicate_key', pointer: '', message: 'has a key twice' });
  return problems;
}

interface Container {
  value: JsonValue[] | JsonObject;
  parent: Container | null;
  segment: string | number;
  depth: number;
}

function pointerTo(parent: Container | null, segment: string | number): string {
  return parent === null ? '' : `${pointerTo(parent.parent, parent.segment)}/${escapeSegment(segment)}`;
}

/** How many keys a valid JSON text has: the strings that a colon follows. Native searches make it some ten times quicker than a scan. */
function countKeys(text: string): number {
  let keys = 0;
  for (let open = text.indexOf('"'); open !== -1; ) {
    let close = text.indexOf('"', open + 1);
    while (isEscaped(text, close)) close = text.indexOf('"', close + 1);
    let after = close + 1;
    while (text.charCodeAt(after) <= 0x20) after += 1;
    if (text.charCodeAt(after) === 0x3a) keys += 1;
    open = text.indexOf('"', close + 1);
  }
  return keys;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text.charCodeAt(at - 1 - backslashes) === 0x5c) backslashes += 1;
  return backslashes % 2 === 1;
}

/** The index of the first byte that is not UTF-8, or null. Decoding replaces what is bad, so encoding again shows where. */
function firstBadByte(buffer: Buffer, decoded: string): number | null {
  if (!decoded.includes('\ufffd')) return null;
  const again = Buffer.from(decoded, 'utf8');
  if (again.equals(buffer)) return null;
  let index = 0;
  while (again[index] === buffer[index]) index += 1;
  return index;
}

function placeOf(text: string, offset: number): { line: number; column: number } {
  return lineCounter(text)(offset);
}

/** Line and column, both from 1, of offsets that never go back. */
function lineCounter(text: string): (offset: number) => { line: number; column: number } {
  let line = 1;
  let lineStart = 0;
  return (offset) => {
    for (let next = text.indexOf('\n', lineStart); next !== -1 && next < offset; next = text.indexOf('\n', lineStart)) {
      line += 1;
      lineStart = next + 1;
    }
    return { line, column: offset - lineStart + 1 };
  };
}
