/** The kinds of problems of a JSON text. Each reader maps them to the codes of its findings. */
export type JsonProblemKind =
  'empty' | 'syntax' | 'trailing_comma' | 'comment' | 'duplicate_key' | 'too_deep' | 'too_many_containers';

export interface JsonProblem {
  kind: JsonProblemKind;
  /** A clause without a capital letter at the start and without a full stop. */
  message: string;
  /** In UTF-16 code units from the start of the text. */
  offset: number;
  /** For `duplicate_key` and `too_deep`: the JSON Pointer of the value. */
  pointer: string | null;
}

export const problemMessages = {
  empty: 'the document is empty; one JSON value is expected',
  trailingComma: 'a comma stands before a closing bracket or brace; remove it',
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
  badEscape: 'this is not a JSON escape; those are \\" \\\\ \\/ \\b \\f \\n \\r \\t and \\uXXXX',
  controlCharacter: 'a control character stands in a string; write it as an escape, for instance \\n',
} as const;

/** Turns the clause into a sentence. */
export function asSentence(clause: string): string {
  return `${clause.charAt(0).toUpperCase()}${clause.slice(1)}.`;
}
