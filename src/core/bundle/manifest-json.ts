import { type Finding, finding } from '../lib/errors.ts';
import { decodeUtf8, positionsIn } from '../lib/located-json/decode.ts';
import { examineJson, type JsonExamination, type JsonLimits } from '../lib/located-json/examine.ts';
import { escapePointer, type JsonShape, measureJson } from '../lib/located-json/measure.ts';
import type { JsonProblem } from '../lib/located-json/tokens.ts';

export type JsonValue = null | boolean | number | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [key: string]: JsonValue;
}

/** A problem in a JSON document. Its line and column are not known yet. */
interface ManifestProblem {
  code: string;
  pointer: string;
  message: string;
}

/** No manifest needs more levels than this. They could overflow the stack of a program that reads it. */
const maxDepth = 64;
/** How many findings to report. Any more are only counted. */
const maxFindings = 100;
/**
 * The maximum number of objects, arrays and commas. After parsing, each may use a hundred bytes of memory or
 * more.
 */
const maxStructure = 2_000_000;
const limits: JsonLimits = { depth: maxDepth, containers: maxStructure, problems: maxFindings };

/**
 * Returns how many objects, arrays and commas a manifest with `maxFiles` files may have: 16 for each file,
 * and 100,000 for metadata and other keys. Reading two million keys blocks the event loop for seconds.
 */
function maxStructureOf(maxFiles: number): number {
  return Math.min(maxStructure, 100_000 + 16 * maxFiles);
}

/** Collects problems. When there are too many to report, the rest are only counted. */
export class Problems {
  readonly shown: ManifestProblem[] = [];
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(code: string, pointer: string, message: string): null {
    this.#count += 1;
    if (this.shown.length < maxFindings) this.shown.push({ code, pointer, message });
    return null;
  }
}

interface JsonDocument {
  /** undefined if the bytes are not JSON. */
  value: JsonValue | undefined;
  /** The problems found so far. Code that reads `value` can add more. */
  problems: Problems;
  /** Returns the problems as findings, with line and column, in the order they appear in the text. */
  locate(): Finding[];
}

/**
 * Parses JSON more strictly than `JSON.parse`, and with better errors. Reports `manifest_too_complex`,
 * `invalid_utf8`, `byte_order_mark`, `invalid_json`, `duplicate_key`, `too_deep`, `lone_surrogate` and
 * `number_out_of_range`. The time it takes is proportional to the number of bytes.
 */
export function readJsonDocument(bytes: Uint8Array, file: string, maxFiles: number): JsonDocument {
  const problems = new Problems();
  const refused = (finding: Finding): JsonDocument => ({
    value: undefined,
    problems,
    locate: () => [finding],
  });
  const decoded = decodeUtf8(bytes);
  if (!decoded.ok) {
    const { byte, line, column, looksLikeUtf16 } = decoded;
    const message = `is not UTF-8: byte ${byte} fits no character${looksLikeUtf16 ? ' (it looks like UTF-16)' : ''}; save it as UTF-8`;
    return refused(finding('error', 'invalid_utf8', message, { file, pointer: '', line, column }));
  }
  const { text } = decoded;
  const shape = measureJson(text);
  const most = maxStructureOf(maxFiles);
  if (shape.containers + shape.commas > most) {
    const message = `holds more than ${most} lists, objects and values; split the bundle${most < maxStructure ? ', or ask the administrator to raise max_files' : ''}`;
    return refused(finding('error', 'manifest_too_complex', message, { file }));
  }
  if (decoded.hasByteOrderMark)
    problems.add('byte_order_mark', '', 'begins with a byte order mark; save it as UTF-8 without one');
  const value = shape.depth > maxDepth ? undefined : parse(text);
  if (value !== undefined) findOddValues(shape, value, problems);
  return { value, problems, locate: () => locate(text, file, value === undefined, problems) };
}

function parse(text: string): JsonValue | undefined {
  try {
    return JSON.parse(text) as JsonValue;
  } catch {
    // `locate` finds the errors and their positions, and words them the same way on every version of Node.js.
    return undefined;
  }
}

interface PlacedProblem extends ManifestProblem {
  offset: number;
}

function locate(text: string, file: string, isBroken: boolean, problems: Problems): Finding[] {
  if (!isBroken && problems.count === 0) return [];
  const examined = examineJson(text, { limits, wanted: problems.shown.map(({ pointer }) => pointer) });
  const placed: PlacedProblem[] = problems.shown
    .filter(({ code }) => code !== 'duplicate_key')
    .map((problem) => ({ ...problem, offset: examined.valueOffset(problem.pointer) }));
  placed.push(...textProblems(examined, isBroken));
  placed.sort((a, b) => a.offset - b.offset);

  const positionOf = positionsIn(text);
  const findings = placed
    .slice(0, maxFindings)
    .map(({ code, message, pointer, offset }) =>
      finding('error', code, message, { file, pointer, ...positionOf(offset) }),
    );
  const more = placed.length + problems.count - problems.shown.length - findings.length;
  if (more > 0)
    findings.push(
      finding('error', 'more_findings', `${more} more things are wrong; correct these first`, { file }),
    );
  return findings;
}

function textProblems({ problems }: JsonExamination, isBroken: boolean): PlacedProblem[] {
  const found = problems.map(asPlaced);
  if (!isBroken || problems.some(({ kind }) => kind !== 'duplicate_key')) return found;
  return [{ code: 'invalid_json', pointer: '', message: 'is not JSON', offset: 0 }, ...found];
}

function asPlaced({ kind, message, offset, pointer }: JsonProblem): PlacedProblem {
  const place = { offset, pointer: pointer ?? '' };
  if (kind === 'duplicate_key') return { code: 'duplicate_key', message: `${message}; remove one`, ...place };
  if (kind === 'too_deep') return { code: 'too_deep', message: `is ${message}`, ...place };
  return { code: 'invalid_json', message: `is not JSON: ${message}`, ...place };
}

/**
 * Looks for duplicate keys, and for strings and numbers that JSON cannot represent, in a single pass. Keys
 * are duplicates if there are more of them in the text than in the parsed value.
 */
function findOddValues({ colons }: JsonShape, root: JsonValue, problems: Problems): void {
  let keys = 0;
  const pending: Container[] = [];
  const look = (value: JsonValue, parent: Container | null, segment: string | number): void => {
    if (typeof value === 'string') {
      if (!value.isWellFormed())
        problems.add(
          'lone_surrogate',
          pointerTo(parent, segment),
          'holds half of a surrogate pair, which is not a character',
        );
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value))
        problems.add('number_out_of_range', pointerTo(parent, segment), 'is too large a number');
    } else if (typeof value === 'object' && value !== null) pending.push({ value, parent, segment });
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
  // The slow pass will find out which keys are duplicates, and where.
  if (colons !== keys) problems.add('duplicate_key', '', 'has a key twice');
}

interface Container {
  value: JsonValue[] | JsonObject;
  parent: Container | null;
  segment: string | number;
}

function pointerTo(parent: Container | null, segment: string | number): string {
  return parent === null ? '' : `${pointerTo(parent.parent, parent.segment)}/${escapePointer(segment)}`;
}
