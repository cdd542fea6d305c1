import { createScanner, type JSONScanner } from 'jsonc-parser';

/** A punctuation character, the kind of a value, something else, or the end of the text. */
type TokenKind = '{' | '}' | '[' | ']' | ',' | ':' | 'string' | 'scalar' | 'unknown' | 'end';

export interface Tokens {
  kind: TokenKind;
  /** The token's position in the text, in UTF-16 code units. */
  offset: number;
  /** The value, if the token is a string or scalar. */
  value: string | number | boolean | null;
  /** Moves on to the next token. Does nothing at the end of the text. */
  next(): void;
}

type ReportSyntax = (kind: 'syntax' | 'comment', message: string, offset: number) => void;

/**
 * The numbers that jsonc-parser uses for tokens and errors. It has names for them, but those are const enums
 * and cannot be imported.
 */
const firstTrivia = 12;
const lastTrivia = 15;
const blockComment = 13;
const punctuation: readonly (TokenKind | undefined)[] = [undefined, '{', '}', '[', ']', ',', ':'];
const errors = { comment: 1, string: 2, number: 3, unicode: 4, escape: 5, character: 6 };

/**
 * Returns the tokens of a text, leaving out whitespace and comments. Comments, and errors inside a token, are
 * reported.
 */
export function tokenize(text: string, report: ReportSyntax): Tokens {
  const scanner = createScanner(text);
  const tokens: Tokens = {
    kind: 'end',
    offset: 0,
    value: null,
    next() {
      for (;;) {
        const code = scanner.scan() as number;
        if (code < firstTrivia || code > lastTrivia) {
          tokens.offset = scanner.getTokenOffset();
          tokens.kind = kindOf(code);
          tokens.value = valueOf(tokens.kind, scanner.getTokenValue());
          reportErrors(text, scanner, report);
          return;
        }
        if (code <= blockComment) report('comment', problemMessages.comment, scanner.getTokenOffset());
      }
    },
  };
  return tokens;
}

function kindOf(code: number): TokenKind {
  const mark = punctuation[code];
  if (mark !== undefined) return mark;
  if (code === 10) return 'string';
  if (code === 17) return 'end';
  return code === 16 ? 'unknown' : 'scalar';
}

function valueOf(kind: TokenKind, text: string): string | number | boolean | null {
  if (kind !== 'scalar') return text;
  if (text === 'true' || text === 'false') return text === 'true';
  return text === 'null' || text === '' ? null : Number(text);
}

function reportErrors(text: string, scanner: JSONScanner, report: ReportSyntax): void {
  const error = scanner.getTokenError() as number;
  const start = scanner.getTokenOffset();
  const end = scanner.getPosition();
  if (error === errors.number) report('syntax', problemMessages.numberCutShort, start);
  else if (error === errors.string) report('syntax', problemMessages.stringCutShort, end);
  else if (error >= errors.unicode) reportFirstInString(text, start, end, report);
}

/**
 * Finds the first error in a string. The scanner only reports the last one, and always says it is at the
 * start.
 */
function reportFirstInString(text: string, start: number, end: number, report: ReportSyntax): void {
  for (let at = start + 1; at < end; at += 1) {
    const message = mistakeAt(text, at);
    if (message !== null) {
      report('syntax', message, at);
      return;
    }
    if (text.charCodeAt(at) === 0x5c) at += 1;
  }
}

function mistakeAt(text: string, at: number): string | null {
  const code = text.charCodeAt(at);
  if (code < 0x20) return problemMessages.controlCharacter;
  if (code !== 0x5c) return null;
  const next = text[at + 1] ?? '';
  if (next === 'u')
    return /^[0-9a-fA-F]{4}$/.test(text.slice(at + 2, at + 6)) ? null : problemMessages.badUnicodeEscape;
  return next !== '' && '"\\/bfnrt'.includes(next) ? null : problemMessages.badEscape;
}

/** The problems that a JSON text can have. Each reader turns these into its own finding codes. */
export type JsonProblemKind =
  'empty' | 'syntax' | 'trailing_comma' | 'comment' | 'duplicate_key' | 'too_deep' | 'too_many_containers';

export interface JsonProblem {
  kind: JsonProblemKind;
  /** A clause that starts with a lowercase letter and has no period. */
  message: string;
  /** The position of the problem in the text, in UTF-16 code units. */
  offset: number;
  /** The JSON Pointer of the value for `duplicate_key` and `too_deep`; null for other kinds. */
  pointer: string | null;
}

export const problemMessages = {
  empty: 'the document is empty; one JSON value is expected',
  trailingComma: 'there is a comma before a closing bracket or brace; remove it',
  comment: 'JSON has no comments; remove this one',
  invalidValue:
    'this is not a JSON value: values are objects, arrays, strings in double quotes, numbers, true, false and null',
  numberCutShort: 'this number ends too early',
  nameExpected: 'a property name in double quotes is expected here',
  valueExpected: 'a value is expected here',
  colonExpected: 'a colon is expected between a property name and its value',
  commaExpected: 'a comma is expected between two entries',
  braceMissing: 'a closing brace } is missing; the text may be cut short',
  bracketMissing: 'a closing bracket ] is missing; the text may be cut short',
  nothingToClose: 'this bracket or brace closes nothing that is open',
  moreAfterEnd: 'there is more after the end of the document; one JSON value is expected',
  stringCutShort: 'this string has no closing double quote on its line',
  badUnicodeEscape: 'a \\u escape needs four hexadecimal digits',
  badEscape: 'this is not a JSON escape; valid escapes are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX',
  controlCharacter: 'a string contains a control character; write it as an escape, for instance \\n',
} as const;

export function toSentence(clause: string): string {
  return `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.`;
}
