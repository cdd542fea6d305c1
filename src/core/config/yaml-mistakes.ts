import { type Document, visit } from 'yaml';

/*
 * Explains common YAML mistakes, because the parser's messages only describe tokens.
 */

/**
 * The parser's error codes that may be caused by wrong indentation. They name the token that was missing as a
 * result.
 */
const ofIndentation = new Set([
  ...['BAD_INDENT', 'BLOCK_AS_IMPLICIT_KEY', 'MISSING_CHAR', 'MULTILINE_IMPLICIT_KEY', 'UNEXPECTED_TOKEN'],
]);

/** Returns the line whose indentation explains a parser error: the line with the error, or the next one. */
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
 * Returns why a line's indentation cannot be correct, or undefined if it can. Lines count from 1. This is a
 * heuristic for block maps and lists in texts that the parser rejected.
 */
function indentationFault(text: string, line: number): string | undefined {
  const lines = text.split(/\r?\n/);
  const wrong = lines[line - 1] ?? '';
  const above = lines.slice(0, line - 1).filter(isContent);
  const last = above.at(-1);
  // Any deeper column can follow a line that ends with a colon or a dash.
  if (!isContent(wrong) || last === undefined || /[:|>-]\s*(#.*)?$/.test(last)) return undefined;
  const [, { length: indent } = '', dash] = /^( *)(- )?/.exec(wrong) ?? [];
  const columns = new Set(above.flatMap((each) => columnsOf(each, dash === undefined ? 'key' : 'dash')));
  if (columns.has(indent)) return undefined;
  const spaces = `${indent} ${indent === 1 ? 'space' : 'spaces'}`;
  const fitting = new Intl.ListFormat('en', { type: 'disjunction' })
    .format([...columns].sort((a, b) => a - b).map(String))
    .replace(', or ', ' or ');
  return `the line is indented by ${spaces}; expected ${fitting}, like the line above that it belongs to`;
}

function isContent(line: string): boolean {
  return /\S/.test(line) && !/^\s*#/.test(line);
}

/** Returns the columns of a line's dashes, or of the key after them. Columns count from 0. */
function columnsOf(line: string, part: 'key' | 'dash'): number[] {
  const [, { length: indent } = '', dashes = ''] = /^( *)((?:- +)*)/.exec(line) ?? [];
  if (part === 'key') return [indent + dashes.length];
  return [...dashes.matchAll(/-/g)].map(({ index }) => indent + index);
}

type YamlDiagnostic = Document.Parsed['errors'][number] | Document.Parsed['warnings'][number];

/** The parser's messages about a missing closing bracket. */
const unclosed = /must be sufficiently indented and end with a ([\]}])$|expected to end with ([\]}])$/i;

export function sentenceFor({ code, message }: YamlDiagnostic): string {
  const [, bracket] = unclosed.exec(message) ?? [];
  if (bracket !== undefined)
    return `a "${bracket}" is missing before this place: the "${bracket === '}' ? '{' : '['}" of a map or list is not closed`;
  const [, quote] = /^Missing closing (['"])quote/.exec(message) ?? [];
  if (quote !== undefined) return `the closing ${quote} of this text is missing`;
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

/** Returns the offset of a parser error. For an unclosed quote, this is the opening quote. */
export function offsetOfComplaint(document: Document.Parsed, { code, pos }: YamlDiagnostic): number {
  let offset = pos[0];
  if (code !== 'MISSING_CHAR') return offset;
  visit(document, {
    Scalar: (_, { type, range }) => {
      if (type?.startsWith('QUOTE_') === true && range?.[1] === pos[0]) offset = range[0];
    },
  });
  return offset;
}
