import { errorMessage } from '../errors.ts';
import { quoted } from '../text.ts';
import { type Frame, JsonBuilder, keyOffset, placesOf, valueOffset, type ValueOffsets } from './builder.ts';
import { type JsonProblem, type JsonProblemKind, problemMessages, tokenize, type Tokens } from './tokens.ts';

export interface JsonLimits {
  /** How deep objects and arrays can be nested. */
  depth: number;
  /** How many objects and arrays there can be in the document. */
  containers: number;
  /** How many problems to report before giving up. Duplicate keys after that are not reported. */
  problems: number;
}

interface ExamineOptions {
  limits: JsonLimits;
  /** JSON Pointers of the values to find. */
  wanted?: Iterable<string>;
}

export interface JsonExamination {
  /** Syntax errors and duplicate keys, in the order they appear in the text. */
  problems: JsonProblem[];
  /** The recovered part of the value; undefined if nothing could be recovered. */
  value: unknown;
  /**
   * Returns the offset of the value at one of the requested pointers, or of the closest value around it if
   * there is none.
   */
  valueOffset: (pointer: string) => number;
  /** Returns the offset of the property name at one of the requested pointers, or null if there is none. */
  keyOffset: (pointer: string) => number | null;
}

/**
 * Goes through a text that is not valid JSON to find out what is wrong with it, and where. It carries on
 * after an error to find the others, too. If a key occurs twice, the last value wins, as in `JSON.parse`.
 * Malicious text has no advantage: it takes linear time, memory is limited, and there is no recursion.
 */
export function examineJson(text: string, { limits, wanted = [] }: ExamineOptions): JsonExamination {
  const root = placesOf(wanted);
  const examiner = new Examiner(text, root, limits);
  examiner.run();
  return {
    problems: examiner.problems.concat(examiner.duplicates).sort((a, b) => a.offset - b.offset),
    value: examiner.built.value,
    valueOffset: (pointer) => valueOffset(root, pointer),
    keyOffset: (pointer) => keyOffset(root, pointer),
  };
}

/** The token that is expected next. */
type State = 'value' | 'key' | 'colon' | 'after';

class Examiner {
  readonly problems: JsonProblem[] = [];
  readonly duplicates: JsonProblem[] = [];
  readonly built: JsonBuilder;
  readonly #tokens: Tokens;
  readonly #limits: JsonLimits;
  readonly #end: number;
  #state: State = 'value';
  /** The offset of the comma right before the current token; null if there is none. */
  #comma: number | null = null;
  #containers = 0;
  #isDone = false;

  constructor(text: string, root: ValueOffsets, limits: JsonLimits) {
    this.built = new JsonBuilder(root);
    this.#limits = limits;
    this.#end = text.length;
    this.#tokens = tokenize(text, (kind, message, offset) => this.#report(kind, message, offset));
  }

  run(): void {
    this.#tokens.next();
    if (this.#tokens.kind === 'end' && this.problems.length === 0) {
      this.#report('empty', problemMessages.empty, 0);
      this.#isDone = true;
    }
    while (!this.#isDone) if (this.#step()) this.#advance();
  }

  /** Returns true if this used up the token. Otherwise, call it again, now in a new state. */
  #step(): boolean {
    if (this.#state === 'value') return this.#atValue();
    if (this.#state === 'key') return this.#atKey();
    return this.#state === 'colon' ? this.#atColon() : this.#afterValue();
  }

  #advance(): void {
    if (this.#isDone) return;
    if (this.#tokens.kind !== ',') this.#comma = null;
    this.#tokens.next();
  }

  #atValue(): boolean {
    const { kind, offset, value } = this.#tokens;
    const { frame } = this.built;
    switch (kind) {
      case '{':
      case '[':
        this.#open(kind === '{');
        return true;
      case 'string':
      case 'scalar':
        this.built.put(value, offset);
        this.#state = 'after';
        return true;
      case 'unknown':
        this.#report('syntax', problemMessages.invalidValue, offset);
        this.#state = 'after';
        return true;
      case ':':
        this.#report('syntax', problemMessages.valueExpected, offset);
        return true;
      case 'end':
        return this.#atEnd(problemMessages.valueExpected);
      default:
        if (kind !== ',' && this.#comma !== null) this.#trailingComma();
        else if (kind === ',' || frame?.keys !== null || !frame.isEmpty)
          this.#report('syntax', problemMessages.valueExpected, offset);
        this.#state = 'after';
        return false;
    }
  }

  #atKey(): boolean {
    const { kind, offset, value } = this.#tokens;
    const frame = this.built.frame as Frame;
    frame.segment = null;
    switch (kind) {
      case 'string':
        this.#name(String(value), offset);
        this.#state = 'colon';
        return true;
      case '}':
        if (this.#comma !== null) this.#trailingComma();
        this.#state = 'after';
        return false;
      case 'end':
        return this.#atEnd(problemMessages.nameExpected);
      case ']':
        this.#state = 'after';
        return false;
      default:
        this.#report('syntax', problemMessages.nameExpected, offset);
        this.#state = kind === ',' ? 'key' : kind === 'unknown' || kind === 'scalar' ? 'colon' : 'value';
        if (kind === ',') this.#comma = null;
        return kind !== '{' && kind !== '[';
    }
  }

  #atColon(): boolean {
    const { kind, offset } = this.#tokens;
    if (kind === ':') {
      this.#state = 'value';
      return true;
    }
    if (kind !== 'end') this.#report('syntax', problemMessages.colonExpected, offset);
    this.#state = kind === ',' || kind === '}' || kind === ']' || kind === 'end' ? 'after' : 'value';
    return false;
  }

  #afterValue(): boolean {
    const { kind, offset } = this.#tokens;
    const frame = this.built.frame;
    if (frame === undefined) {
      if (kind !== 'end') this.#report('syntax', problemMessages.moreAfterEnd, offset);
      this.#isDone = true;
      return true;
    }
    const isArray = frame.keys === null;
    switch (kind) {
      case ',':
        this.#comma = offset;
        this.#expectNext(frame);
        return true;
      case '}':
      case ']':
        return this.#close(frame, (kind === ']') === isArray);
      case ':':
        this.#report(
          'syntax',
          isArray ? problemMessages.commaExpected : problemMessages.nameExpected,
          offset,
        );
        return true;
      case 'end':
        return this.#atEnd(problemMessages.valueExpected);
      default:
        this.#report('syntax', problemMessages.commaExpected, offset);
        this.#expectNext(frame);
        return false;
    }
  }

  #expectNext(frame: Frame): void {
    if (frame.keys === null) frame.segment = Number(frame.segment) + 1;
    frame.isEmpty = false;
    this.#state = frame.keys === null ? 'value' : 'key';
  }

  #open(isObject: boolean): void {
    const { offset } = this.#tokens;
    const { depth, containers } = this.#limits;
    this.#containers += 1;
    if (this.built.frames.length >= depth) {
      const pointer = this.built.pointer();
      this.#add({ kind: 'too_deep', message: `nested deeper than ${depth} levels`, offset, pointer });
      this.#isDone = true;
    } else if (this.#containers > containers) {
      this.#report('too_many_containers', `more than ${containers} objects and arrays`, offset);
      this.#isDone = true;
    } else {
      this.built.open(isObject, offset);
      this.#state = isObject ? 'key' : 'value';
    }
  }

  #close(frame: Frame, fits: boolean): boolean {
    const { offset } = this.#tokens;
    const isArray = frame.keys === null;
    if (fits) {
      this.built.frames.pop();
      return true;
    }
    // Either the innermost container was never closed, or this bracket should not be here.
    const isAwaited = this.built.frames.some(({ keys }) => (keys === null) !== isArray);
    if (!isAwaited) {
      this.#report('syntax', problemMessages.nothingToClose, offset);
      return true;
    }
    this.#report('syntax', isArray ? problemMessages.bracketMissing : problemMessages.braceMissing, offset);
    this.built.frames.pop();
    return false;
  }

  #atEnd(expected: string): true {
    const frame = this.built.frame;
    const missing = frame?.keys === null ? problemMessages.bracketMissing : problemMessages.braceMissing;
    this.#report('syntax', frame === undefined ? expected : missing, this.#end);
    this.#isDone = true;
    return true;
  }

  #name(key: string, offset: number): void {
    if (!this.built.name(key, offset) || this.duplicates.length >= this.#limits.problems) return;
    const message = `the key ${quoted(key)} appears twice in this object; readers keep one of them, and not always the same one`;
    this.duplicates.push({ kind: 'duplicate_key', message, offset, pointer: this.built.pointer() });
  }

  #trailingComma(): void {
    this.#report('trailing_comma', problemMessages.trailingComma, this.#comma ?? 0);
  }

  #report(kind: JsonProblemKind, message: string, offset: number): void {
    this.#add({ kind, message, offset, pointer: null });
  }

  /** Adds a problem, unless there already is one at the same place. */
  #add(problem: JsonProblem): void {
    if (this.problems.at(-1)?.offset === problem.offset) return;
    this.problems.push(problem);
    if (this.problems.length >= this.#limits.problems) this.#isDone = true;
  }
}

/** The value of a JSON text. If the text is invalid, its problems and whatever could be recovered. */
export interface ParsedJson {
  /** The value, or whatever could be recovered of it; undefined if nothing could. */
  value: unknown;
  problems: JsonProblem[];
}

/**
 * Parses with `JSON.parse`, and looks for the reason only if that fails. The limits apply only then, so
 * measure the text first. Valid JSON with duplicate keys is not a problem here; to find out if there are any,
 * compare the number of properties with `colons` from `measureJson`.
 */
export function parseJson(text: string, limits: JsonLimits): ParsedJson {
  try {
    return { value: JSON.parse(text) as unknown, problems: [] };
  } catch (error) {
    const { value, problems } = examineJson(text, { limits });
    const broken = problems.filter(({ kind }) => kind !== 'duplicate_key');
    if (broken.length > 0) return { value, problems: broken };
    // `JSON.parse` has the last word on whether a text is valid.
    const message = errorMessage(error);
    return { value: undefined, problems: [{ kind: 'syntax', message, offset: 0, pointer: null }] };
  }
}
