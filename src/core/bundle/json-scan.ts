/**
 * Where things are in a JSON text. `JSON.parse` is quicker and stays the parser; this scan says what it
 * cannot: where, and twice.
 */
export interface JsonScan {
  /** The first place where the text is not JSON; null where it is. */
  error: { offset: number; message: string } | null;
  /** Keys that an object has more than once. */
  duplicates: { pointer: string; offset: number }[];
  /**
   * The offset of the value at a JSON Pointer, or of the nearest value around it that exists. Only for
   * pointers that were asked for.
   */
  offsetOf(pointer: string): number;
}

interface Place {
  offset: number | null;
  children: Map<string, Place>;
}

interface Frame {
  /** Null in an array. */
  keys: Set<string> | null;
  /** The key or index of the value that is being read. */
  segment: string | number;
  place: Place | undefined;
}

const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;
const space = /[ \t\n\r]*/y;
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y;

class NotJson extends Error {
  readonly offset: number;
  constructor(offset: number, message: string) {
    super(message);
    this.offset = offset;
  }
}

/**
 * Scans a text strictly, in time linear in its length and without recursion, so that hostile nesting costs
 * nothing. Pure.
 */
export function scanJson(text: string, wanted: Iterable<string> = []): JsonScan {
  const root = newPlace();
  for (const pointer of wanted) {
    let place = root;
    for (const segment of segmentsOf(pointer)) place = childOf(place, segment);
  }
  const duplicates: JsonScan['duplicates'] = [];
  let error: JsonScan['error'] = null;
  try {
    walk(text, root, (pointer, offset) => duplicates.push({ pointer, offset }));
  } catch (thrown) {
    if (!(thrown instanceof NotJson)) throw thrown;
    error = { offset: thrown.offset, message: thrown.message };
  }
  return { error, duplicates, offsetOf: (pointer) => nearestOffset(root, pointer) };
}

export function escapeSegment(segment: string | number): string {
  return String(segment).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The machine has three states: a value must come, a key must come, or a value has just ended. */
function walk(text: string, root: Place, onDuplicate: (pointer: string, offset: number) => void): void {
  const frames: Frame[] = [];
  let at = 0;
  let place: Place | undefined = root;
  let state: 'value' | 'key' | 'after' = 'value';
  for (;;) {
    at = skipSpace(text, at);
    const character = text[at];
    const frame = frames.at(-1);
    if (state === 'value') {
      if (place !== undefined) place.offset = at;
      if (character === '{' || character === '[') {
        const isObject = character === '{';
        at = skipSpace(text, at + 1);
        if (text[at] === (isObject ? '}' : ']')) {
          at += 1;
          state = 'after';
          continue;
        }
        frames.push({ keys: isObject ? new Set() : null, segment: 0, place });
        if (!isObject) place = place?.children.get('0');
        state = isObject ? 'key' : 'value';
        continue;
      }
      at = character === '"' ? endOfString(text, at) : endOfScalar(text, at);
      state = 'after';
    } else if (state === 'key') {
      if (character !== '"') throw unexpected(text, at, 'a key in double quotes');
      const end = endOfString(text, at);
      const key = keyOf(text.slice(at, end));
      const { keys } = frame as Frame & { keys: Set<string> };
      (frame as Frame).segment = key;
      if (keys.has(key)) onDuplicate(pointerOf(frames), at);
      keys.add(key);
      at = skipSpace(text, end);
      if (text[at] !== ':') throw unexpected(text, at, '":"');
      at += 1;
      place = frame?.place?.children.get(key);
      state = 'value';
    } else if (frame === undefined) {
      if (at < text.length) throw unexpected(text, at, 'nothing more');
      return;
    } else if (character === ',') {
      at += 1;
      if (frame.keys === null) {
        frame.segment = Number(frame.segment) + 1;
        place = frame.place?.children.get(String(frame.segment));
      }
      state = frame.keys === null ? 'value' : 'key';
    } else {
      const closing = frame.keys === null ? ']' : '}';
      if (character !== closing) throw unexpected(text, at, `"," or "${closing}"`);
      frames.pop();
      at += 1;
    }
  }
}

function skipSpace(text: string, at: number): number {
  if (text.charCodeAt(at) > 0x20) return at;
  space.lastIndex = at;
  space.test(text);
  return space.lastIndex;
}

function endOfScalar(text: string, at: number): number {
  scalar.lastIndex = at;
  if (!scalar.test(text)) throw unexpected(text, at, 'a value');
  return scalar.lastIndex;
}

function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x22) return at + 1;
    if (code < 0x20) throw new NotJson(at, 'a control character stands in a string; write it as an escape');
    if (code !== 0x5c) continue;
    escape.lastIndex = at;
    if (!escape.test(text)) throw new NotJson(at, 'a backslash is not followed by a valid escape');
    at += 1;
  }
  throw new NotJson(text.length, 'the text ends inside a string');
}

function unexpected(text: string, at: number, expected: string): NotJson {
  const character = text.codePointAt(at);
  const found =
    character === undefined ? 'the text ends' : `found ${JSON.stringify(String.fromCodePoint(character))}`;
  return new NotJson(at, `expected ${expected}, but ${found}`);
}

function keyOf(quoted: string): string {
  return quoted.includes('\\') ? String(JSON.parse(quoted)) : quoted.slice(1, -1);
}

function pointerOf(frames: readonly Frame[]): string {
  return frames.map(({ segment }) => `/${escapeSegment(segment)}`).join('');
}

function segmentsOf(pointer: string): string[] {
  return pointer
    .split('/')
    .slice(1)
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function nearestOffset(root: Place, pointer: string): number {
  let place = root;
  let offset = root.offset ?? 0;
  for (const segment of segmentsOf(pointer)) {
    const child = place.children.get(segment);
    if (child?.offset == null) break;
    place = child;
    offset = child.offset;
  }
  return offset;
}

function newPlace(): Place {
  return { offset: null, children: new Map() };
}

function childOf(place: Place, segment: string): Place {
  const known = place.children.get(segment);
  if (known !== undefined) return known;
  const child = newPlace();
  place.children.set(segment, child);
  return child;
}
