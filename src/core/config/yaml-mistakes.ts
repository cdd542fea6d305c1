import { type Document, visit } from 'yaml';

/*
 * Explains common mistakes in YAML. The parser's own messages are only about tokens.
 */

/**
 * Parser errors that can be the result of wrong indentation. Their messages are about a token that is missing
 * because of it.
 */
const ofIndentation = new Set([
  ...['BAD_INDENT', 'BLOCK_AS_IMPLICIT_KEY', 'MISSING_CHAR', 'MULTILINE_IMPLICIT_KEY', 'UNEXPECTED_TOKEN'],
]);

/**
 * Returns the line whose indentation is to blame for a parser error. This is either the line with the error
 * or the one after it.
 */
export function misplacedLine(
  text: string,
  complaints: readonly YamlDiagnostic[],
  at: (offset: number) => { line: number },
): { line: number; message: string } | undefined {
  const [first] = complaints;
  if (first === undefined || !ofIndentation.has(first.code) || unclosed.test(first.message)) return undefined;
  const { line } = at(first.pos[0]);
  for (const each of [line, line + 1]) {
    const message = indentationFault(text, each);
    if (message !== undefined) return { line: each, message };
  }
  return undefined;
}

/**
 * Explains what is wrong with the indentation of a line, or returns undefined if it could be right. The first
 * line is 1. This is a guess, for maps and lists in block style that the parser could not make sense of.
 */
function indentationFault(text: string, line: number): string | undefined {
  const lines = text.split(/\r?\n/);
  const wrong = lines[line - 1] ?? '';
  const above = lines
    .slice(0, line - 1)
    .flatMap((text, index) => (isContent(text) ? [{ text, line: index + 1 }] : []));
  const last = above.at(-1)?.text;
  // After a line that ends with a colon or a dash, the next one can start in any column further right.
  if (!isContent(wrong) || last === undefined || /[:|>-]\s*(#.*)?$/.test(last)) return undefined;
  const [, { length: indent } = '', dash] = /^( *)(- )?/.exec(wrong) ?? [];
  // The columns that are in use above, each with the last line that uses it.
  const columns = new Map(
    above.flatMap((each) =>
      columnsOf(each.text, dash === undefined ? 'key' : 'dash').map((column) => [column, each.line]),
    ),
  );
  if (columns.has(indent)) return undefined;
  const spaces = `${indent} ${indent === 1 ? 'space' : 'spaces'}`;
  const fitting = new Intl.ListFormat('en', { type: 'disjunction' }).format(
    [...columns].sort(([a], [b]) => a - b).map(([column, at]) => `${column} (as on line ${at})`),
  );
  return `the line is indented by ${spaces}; expected ${fitting}`;
}

function isContent(line: string): boolean {
  return /\S/.test(line) && !/^\s*#/.test(line);
}

/**
 * Returns the columns of the dashes in a line, or the column of the key after them. The first column is 0.
 */
function columnsOf(line: string, part: 'key' | 'dash'): number[] {
  const [, { length: indent } = '', dashes = ''] = /^( *)((?:- +)*)/.exec(line) ?? [];
  if (part === 'key') return [indent + dashes.length];
  return [...dashes.matchAll(/-/g)].map(({ index }) => indent + index);
}

type YamlDiagnostic = Document.Parsed['errors'][number] | Document.Parsed['warnings'][number];

/** Matches the messages that the parser has for a missing closing bracket. */
const unclosed = /must (?:be sufficiently indented and )?end with a ([\]}])$|expected to end with ([\]}])$/i;

export function sentenceFor({ code, message }: YamlDiagnostic): string {
  const [, first, second] = unclosed.exec(message) ?? [];
  const bracket = first ?? second;
  if (bracket !== undefined) return `this "${bracket === '}' ? '{' : '['}" is never closed; add "${bracket}"`;
  const [, quote] = /^Missing closing (['"])quote/.exec(message) ?? [];
  if (quote !== undefined)
    return `the text that begins here has no closing ${quote === '"' ? 'double' : 'single'} quote`;
  return sentences[code] ?? `this is not valid YAML (${code})`;
}

const sentences: Readonly<Record<string, string>> = {
  ALIAS_PROPS: 'an alias ("*name") takes no anchor or tag of its own',
  BAD_ALIAS: 'an alias ("*…") needs a name; put text that begins with "*" in quotes',
  BAD_COLLECTION_TYPE: 'the tag does not fit the value after it',
  BAD_DIRECTIVE: 'a directive ("%…") is not valid; put text that begins with "%" in quotes',
  BAD_DQ_ESCAPE: 'a backslash in double quotes begins no valid escape; write it twice or use single quotes',
  BAD_INDENT: 'the indentation does not fit the lines around it',
  BAD_PROP_ORDER: 'an anchor or a tag must come after the "-", "?" or ":"',
  BAD_SCALAR_START: 'a plain value cannot begin with this character; put the value in quotes',
  BLOCK_AS_IMPLICIT_KEY:
    'found a nested map or list; expected a key on one line; check the indentation and the ":" above',
  BLOCK_IN_FLOW: 'an indented map or list cannot be inside { } or [ ]',
  DUPLICATE_KEY: 'the key appears twice in this map',
  IMPOSSIBLE: 'this is not valid YAML',
  KEY_OVER_1024_CHARS: 'the key is too long, or a ":" is missing',
  MISSING_CHAR: 'a character is missing here: a closing quote, a comma, a colon, or a space after one',
  MULTILINE_IMPLICIT_KEY: 'a key spans several lines; a ":" or a quote is missing above',
  MULTIPLE_ANCHORS: 'a value has more than one anchor',
  MULTIPLE_DOCS: 'a second document begins here; a configuration is one document: remove the "---" line',
  MULTIPLE_TAGS: 'a value has more than one tag',
  RESOURCE_EXHAUSTION: 'maps and lists are nested too deeply here',
  NON_STRING_KEY: 'keys are plain text',
  TAB_AS_INDENT: 'the line is indented with a tab; YAML allows only spaces',
  TAG_RESOLVE_FAILED: 'a tag ("!…") is not known; put text that begins with "!" in quotes',
  UNEXPECTED_TOKEN: 'unexpected text; check quotes, commas, brackets and indentation',
};

/** Returns where a parser error is. If a quote or bracket is not closed, this is where it opens. */
export function offsetOfComplaint(document: Document.Parsed, complaint: YamlDiagnostic): number {
  const { code, message, pos } = complaint;
  let offset = pos[0];
  const isBracket = unclosed.test(message);
  if (code !== 'MISSING_CHAR' && !isBracket) return offset;
  visit(document, {
    Scalar: (_, { type, range }) => {
      if (!isBracket && type?.startsWith('QUOTE_') === true && range?.[1] === pos[0]) offset = range[0];
    },
    Collection: (_, { flow, range }) => {
      if (!isBracket || flow !== true || range?.[1] !== pos[0]) return undefined;
      offset = range[0];
      return visit.BREAK;
    },
  });
  return offset;
}
