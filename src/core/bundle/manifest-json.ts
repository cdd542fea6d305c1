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

/**
 * Nothing that reads a manifest needs more, and deeper nesting would be a way to exhaust the stack of whoever
 * does.
 */
const maxDepth = 64;
/** A message with ten thousand findings helps nobody. */
const maxFindings = 100;
/**
 * `{`, `[` and `,` together. Each may cost a hundred times its byte once parsed, and the bytes come from
 * anyone.
 */
const maxStructure = 2_000_000;

/** Collects what is wrong; beyond what will be shown it only counts. */
export class Problems {
  readonly shown: Problem[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  tell(code: string, pointer: string, message: string): null {
    this.#count += 1;
    if (this.shown.length < maxFindings) this.shown.push({ code, pointer, message });
    return null;
  }
}

export interface JsonDocument {
  /** Undefined where the bytes are not JSON. */
  value: JsonValue | undefined;
  /** What is wrong so far; the reader of the value adds to it. */
  problems: Problems;
  /** The problems as findings with line and column, in the order of the text. */
  locate(): Finding[];
}

/**
 * Bytes to a JSON value, telling all that `JSON.parse` forgives or does not explain. Linear in the number of
 * bytes. Pure.
 */
export function readJsonDocument(bytes: Uint8Array, file: string): JsonDocument {
  const problems = new Problems();
  const broken = (finding: Finding): JsonDocument => ({
    value: undefined,
    problems,
    locate: () => [finding],
  });
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (isTooComplex(buffer)) {
    const message = `holds more than ${maxStructure} lists, objects and values; split the bundle`;
    return broken(finding('error', 'manifest_too_complex', message, { file }));
  }
  const raw = buffer.toString('utf8');
  const badByte = firstBadByte(buffer, raw);
  if (badByte !== null) {
    const place = placeOf(raw, buffer.subarray(0, badByte).toString('utf8').length);
    return broken(
      finding('error', 'invalid_utf8', 'is not valid UTF-8; save it as UTF-8', {
        file,
        pointer: '',
        ...place,
      }),
    );
  }
  const hasMark = raw.startsWith('\ufeff');
  const text = hasMark ? raw.slice(1) : raw;
  if (hasMark)
    problems.tell('byte_order_mark', '', 'begins with a byte order mark; save it as UTF-8 without one');

  let value: JsonValue | undefined;
  try {
    value = JSON.parse(text) as JsonValue;
    tellOddValues(text, value, problems);
  } catch {
    // The scan below says what is wrong, and where, in the same words on every version of Node.
    value = undefined;
  }
  return { value, problems, locate: () => locate(text, file, value === undefined, problems) };
}

function locate(text: string, file: string, isBroken: boolean, problems: Problems): Finding[] {
  if (!isBroken && problems.count === 0) return [];
  const scan = scanJson(
    text,
    problems.shown.map(({ pointer }) => pointer),
  );
  const placed = problems.shown
    .filter(({ code }) => code !== 'duplicate_key')
    .map((problem) => ({ ...problem, offset: scan.offsetOf(problem.pointer) }));
  for (const { pointer, offset } of scan.duplicates)
    placed.push({
      code: 'duplicate_key',
      pointer,
      offset,
      message: 'this key stands here for the second time; keep one',
    });
  if (scan.error !== null)
    placed.push({
      code: 'invalid_json',
      pointer: '',
      ...scan.error,
      message: `is not JSON: ${scan.error.message}`,
    });
  placed.sort((a, b) => a.offset - b.offset);

  const findings: Finding[] = [];
  const lines = lineCounter(text);
  for (const { code, message, pointer, offset } of placed.slice(0, maxFindings))
    findings.push(finding('error', code, message, { file, pointer, ...lines(offset) }));
  const more = placed.length + problems.count - problems.shown.length - findings.length;
  if (more > 0)
    findings.push(
      finding('error', 'more_findings', `${more} more things are wrong; mend these first`, { file }),
    );
  return findings;
}

/**
 * Looks at every value once: duplicate keys (the text has more keys than the value), nesting, strings and
 * numbers that have no JSON form.
 */
function tellOddValues(text: string, root: JsonValue, problems: Problems): void {
  const seen = { keys: 0, isTooDeep: false };
  const pending: Container[] = [];
  const look = (value: JsonValue, parent: Container | null, segment: string | number): void => {
    if (typeof value === 'string') {
      if (!value.isWellFormed())
        problems.tell(
          'lone_surrogate',
          pointerTo(parent, segment),
          'holds half of a surrogate pair, which is no character',
        );
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value))
        problems.tell('number_out_of_range', pointerTo(parent, segment), 'is too large a number');
    } else if (typeof value === 'object' && value !== null) {
      const depth = parent === null ? 1 : parent.depth + 1;
      if (depth <= maxDepth) pending.push({ value, parent, segment, depth });
      else {
        seen.isTooDeep = true;
        problems.tell('too_deep', pointerTo(parent, segment), `is nested deeper than ${maxDepth} levels`);
      }
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
      seen.keys += 1;
      look(key, container, key);
      look(value[key] as JsonValue, container, key);
    }
  }
  // Below `maxDepth` nothing was counted, and such a document is refused anyway.
  if (!seen.isTooDeep && countKeys(text) !== seen.keys) problems.tell('duplicate_key', '', 'has a key twice');
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

function isTooComplex(bytes: Buffer): boolean {
  let structure = 0;
  // By index: an iterator over a buffer takes ten times as long.
  for (let at = bytes.length - 1; at >= 0; at -= 1) {
    const byte = bytes[at];
    if (byte === 0x2c || byte === 0x5b || byte === 0x7b) structure += 1;
  }
  return structure > maxStructure;
}

/**
 * How many keys a valid JSON text has: the strings that a colon follows. Native searches make it some ten
 * times quicker than a scan.
 */
function countKeys(text: string): number {
  let keys = 0;
  for (let open = text.indexOf('"'); open !== -1;) {
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

/**
 * The index of the first byte that is not UTF-8, or null. Decoding replaces what is bad, so encoding again
 * shows where.
 */
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
    for (
      let next = text.indexOf('\n', lineStart);
      next !== -1 && next < offset;
      next = text.indexOf('\n', lineStart)
    ) {
      line += 1;
      lineStart = next + 1;
    }
    return { line, column: offset - lineStart + 1 };
  };
}
