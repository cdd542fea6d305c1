import { createScanner, parse, type ParseError, printParseErrorCode, visit } from 'jsonc-parser';
import type { FindingCode } from './finding-codes.ts';

/**
 * The careful reading of JSON text, for documents in which something is wrong: all mistakes, and where each
 * value stands.
 */
export interface TextProblem {
  code: FindingCode;
  message: string;
  offset: number;
  pointer: string | null;
}

/** Parses what can be understood of broken JSON, so that the mistakes after the first are found too. */
export function parseBroken(text: string): { value: unknown; problems: TextProblem[] } {
  const errors: ParseError[] = [];
  const value: unknown = parse(text, errors, { allowTrailingComma: false, disallowComments: true });
  return { value, problems: tellProblems(text, errors) };
}

export interface Places {
  /** Offset of the value, or of the property's name. */
  value: ReadonlyMap<string, number>;
  key: ReadonlyMap<string, number>;
  duplicates: TextProblem[];
}

/**
 * Finds where the wanted pointers stand in the text (the last of duplicate keys, which is the one that
 * counts), and duplicate keys.
 */
export function findPlaces(text: string, wanted: ReadonlySet<string>, limit: number): Places {
  const values = new Map<string, number>();
  const keys = new Map<string, number>();
  const duplicates: TextProblem[] = [];
  const open: { seen: Set<string> | null; index: number; pointer: string }[] = [];
  let name: string | null = null;

  const place = (offset: number): string => {
    const parent = open.at(-1);
    const pointer =
      parent === undefined
        ? ''
        : `${parent.pointer}/${parent.seen === null ? parent.index : escapePointer(name ?? '')}`;
    if (wanted.has(pointer)) values.set(pointer, offset);
    return pointer;
  };
  visit(
    text,
    {
      onObjectBegin: (offset) => void open.push({ pointer: place(offset), seen: new Set(), index: 0 }),
      onArrayBegin: (offset) => void open.push({ pointer: place(offset), seen: null, index: 0 }),
      onObjectEnd: () => void open.pop(),
      onArrayEnd: () => void open.pop(),
      onSeparator: (character) => {
        const parent = open.at(-1);
        if (character === ',' && parent?.seen === null) parent.index++;
      },
      onLiteralValue: (_value, offset) => void place(offset),
      onObjectProperty: (property, offset) => {
        name = property;
        const parent = open.at(-1);
        if (parent?.seen == null) return;
        const pointer = `${parent.pointer}/${escapePointer(property)}`;
        if (parent.seen.has(property) && duplicates.length < limit) {
          const message = `The key ${quoted(property)} stands twice in this object; readers keep one of them and not always the same. Remove one.`;
          duplicates.push({ code: 'duplicate_key', message, offset, pointer });
        }
        parent.seen.add(property);
        if (wanted.has(pointer)) keys.set(pointer, offset);
      },
    },
    { allowTrailingComma: true, disallowComments: false },
  );
  return { value: values, key: keys, duplicates };
}

/** Turns offsets into lines and columns, both from 1; columns count UTF-16 code units, as editors do. */
export function lineIndex(text: string): (offset: number) => { line: number; column: number } {
  const starts = [0];
  for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) starts.push(at + 1);
  return (offset) => {
    let low = 0;
    let high = starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (starts[low] ?? 0) + 1 };
  };
}

export function escapePointer(segment: string): string {
  return segment.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** Text from a document inside a message: quoted, control characters escaped, cut where it is long. */
export function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 59)}…` : text);
}

const sentences: Record<string, string> = {
  InvalidSymbol:
    'This is no JSON value: values are objects, arrays, strings in double quotes, numbers, true, false and null.',
  InvalidNumberFormat: 'This is no JSON number: write it in decimal, without a leading zero or plus sign.',
  PropertyNameExpected: 'A property name in double quotes is expected here.',
  ValueExpected: 'A value is expected here.',
  ColonExpected: 'A colon is expected between a property name and its value.',
  CommaExpected: 'A comma is expected between two entries.',
  CloseBraceExpected: 'A closing brace } is missing; the text may be cut short.',
  CloseBracketExpected: 'A closing bracket ] is missing; the text may be cut short.',
  EndOfFileExpected: 'There is more after the end of the document; one JSON value is expected.',
  UnexpectedEndOfString: 'This string has no closing double quote on its line.',
  UnexpectedEndOfNumber: 'This number ends too early.',
  InvalidUnicode: 'A \\u escape needs four hexadecimal digits.',
  InvalidEscapeCharacter: 'This is no JSON escape; those are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX.',
  InvalidCharacter: 'A control character stands in a string; write it as an escape, for instance \\n.',
};

function tellProblems(text: string, errors: readonly ParseError[]): TextProblem[] {
  const commas = trailingCommas(text);
  const problems: TextProblem[] = [...commas.values()].map((offset) => ({
    code: 'trailing_comma',
    message: 'A comma stands before a closing bracket or brace; remove it.',
    offset,
    pointer: null,
  }));
  for (const { error, offset } of errors) {
    // The parser complains at the bracket, and sometimes twice; the comma has been told already.
    if (commas.has(offset)) continue;
    const name = printParseErrorCode(error);
    if (name === 'InvalidCommentToken' || name === 'UnexpectedEndOfComment') {
      problems.push({
        code: 'json_comment',
        message: 'JSON has no comments; remove this one.',
        offset,
        pointer: null,
      });
    } else if (problems.at(-1)?.offset !== offset) {
      const message = sentences[name] ?? `This is not JSON: ${name}.`;
      problems.push({ code: 'json_syntax', message, offset, pointer: null });
    }
  }
  return problems.sort((a, b) => a.offset - b.offset);
}

/** Offset of each closing bracket that follows a comma → offset of that comma. */
function trailingCommas(text: string): Map<number, number> {
  const found = new Map<number, number>();
  const scanner = createScanner(text, true);
  let comma: number | null = null;
  for (scanner.scan(); scanner.getTokenOffset() < text.length; scanner.scan()) {
    const offset = scanner.getTokenOffset();
    const first = text.charAt(offset);
    if ((first === '}' || first === ']') && comma !== null) found.set(offset, comma);
    comma = first === ',' ? offset : null;
  }
  return found;
}
