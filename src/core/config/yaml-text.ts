import { isUtf8 } from 'node:buffer';
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Pair,
  parseDocument,
  Parser,
  type YAMLMap,
} from 'yaml';
import type { TextPosition } from '../lib/located-json/decode.ts';
import type { KeyPath } from '../lib/settings/check.ts';
import { misplacedLine, offsetOfComplaint, sentenceFor } from './yaml-mistakes.ts';

export interface YamlProblem extends TextPosition {
  code: 'yaml_syntax' | 'duplicate_key' | 'unknown_key';
  path: KeyPath | null;
  message: string;
}

export interface YamlText {
  value: unknown;
  /** Problems that do not get in the way of checking `value`. */
  problems: YamlProblem[];
  /**
   * Returns the position of a value or its key. If there is no such value, returns the position of the
   * closest map or list around it.
   */
  locate(path: KeyPath, part: 'key' | 'value'): TextPosition;
}

/**
 * How deep maps and lists can be nested. No configuration needs nearly as many levels, and they do not
 * overflow the stack.
 */
const maxDepth = 64;
/** How many aliases to expand. A normal document needs fewer, and an alias bomb needs thousands. */
const maxAliasCount = 1000;

const tooManyAliases = 'aliases ("*name") repeat their anchors too often, or an anchor holds itself';

/**
 * Parses a YAML 1.2 document, and knows where everything in it is. Messages contain keys from the file but no
 * values, since any value might be a secret. Never throws.
 */
export function readYaml(
  bytes: Uint8Array,
): { ok: true; yaml: YamlText } | { ok: false; problems: YamlProblem[] } {
  const encoding = encodingProblem(bytes);
  if (encoding !== undefined) return { ok: false, problems: [encoding] };
  const text = new TextDecoder().decode(bytes);
  const lines = new LineCounter();
  const at = (offset: number): TextPosition => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(line, 1), column: Math.max(col, 1) };
  };
  const syntax = (offset: number, message: string): YamlProblem => ({
    code: 'yaml_syntax',
    path: null,
    message,
    ...at(offset),
  });
  const failed = (...problems: YamlProblem[]) => ({ ok: false as const, problems });

  try {
    requireFlat(text);
    // The parser takes quadratic time to find duplicate keys, so that is done below.
    const document = parseDocument(text, {
      lineCounter: lines,
      prettyErrors: false,
      stringKeys: true,
      uniqueKeys: false,
      logLevel: 'error',
    });
    const complaints = [...document.errors, ...document.warnings];
    if (complaints.length > 0) {
      const misplaced = misplacedLine(text, complaints, at);
      if (misplaced !== undefined)
        return failed({ code: 'yaml_syntax', path: null, column: 1, ...misplaced });
      // If there are several errors in the same place, the first is the cause of the others.
      const byPlace = new Map(complaints.toReversed().map((complaint) => [complaint.pos[0], complaint]));
      return failed(
        ...[...byPlace.values()]
          .toReversed()
          .map((complaint) => syntax(offsetOfComplaint(document, complaint), sentenceFor(complaint))),
      );
    }
    if (document.contents === null || (isScalar(document.contents) && document.contents.value === null))
      return failed(syntax(0, 'the file is empty; waybill init --out FILE writes an example'));
    const { problems, fatal } = inspect(document, at);
    if (fatal) return failed(...problems);
    const value: unknown = document.toJS({ maxAliasCount });
    return { ok: true, yaml: { value, problems, locate: locator(document, at) } };
  } catch (error) {
    if (error instanceof RangeError)
      return failed(syntax(0, `the file is nested deeper than ${maxDepth} levels`));
    if (error instanceof ReferenceError) return failed(syntax(0, tooManyAliases));
    return failed(syntax(0, 'this is not valid YAML'));
  }
}

/**
 * Throws a RangeError if the text has too many levels. The composer is recursive, so with enough levels, the
 * process would crash. The parser is not: it has a list of open collections.
 */
function requireFlat(text: string): void {
  const parser = new Parser();
  for (const lexeme of new Lexer().lex(text)) {
    Array.from(parser.next(lexeme));
    if (parser.stack.length > 4 * maxDepth) throw new RangeError('too deep');
  }
}

function encodingProblem(bytes: Uint8Array): YamlProblem | undefined {
  const problem = (line: number, message: string): YamlProblem => ({
    code: 'yaml_syntax',
    path: null,
    line,
    column: 1,
    message,
  });
  if ((bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff))
    return problem(1, 'the file is UTF-16; save it as UTF-8');
  if (!isUtf8(bytes)) {
    let line = 1;
    for (let start = 0; start < bytes.length; line += 1) {
      const newline = bytes.indexOf(0x0a, start);
      const end = newline === -1 ? bytes.length : newline;
      if (!isUtf8(bytes.subarray(start, end))) break;
      start = end + 1;
    }
    return problem(line, 'this line is not UTF-8; save the file as UTF-8');
  }
  const nul = bytes.indexOf(0);
  if (nul === -1) return undefined;
  return problem(
    bytes.subarray(0, nul).filter((byte) => byte === 0x0a).length + 1,
    'this line contains a NUL character; the file is not text',
  );
}

/**
 * Goes through every node once, without recursion. Looks for duplicate keys, keys that would break an object,
 * aliases, and too many levels.
 */
function inspect(
  document: Document.Parsed,
  at: (offset: number) => TextPosition,
): { problems: YamlProblem[]; fatal: boolean } {
  const problems: YamlProblem[] = [];
  let fatal = false;
  const anchors = new Set<string>();
  const aliases: { alias: Alias; path: KeyPath; above: readonly unknown[] }[] = [];
  const pending: { node: unknown; path: KeyPath; above: readonly unknown[] }[] = [
    { node: document.contents, path: [], above: [] },
  ];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { node, path } = next;
    if (path.length > maxDepth) throw new RangeError('too deep');
    if (isAlias(node)) aliases.push({ alias: node, path, above: next.above });
    const isAnchored = !isAlias(node) && isNode(node) && node.anchor !== undefined;
    if (isAnchored) anchors.add(node.anchor as string);
    const above = isAnchored ? [...next.above, node] : next.above;
    if (isSeq(node))
      node.items.forEach((item, index) => pending.push({ node: item, path: [...path, index], above }));
    if (!isMap(node)) continue;
    const seen = new Map<string, number>();
    for (const pair of node.items) {
      const key = keyOf(pair);
      const offset = offsetOf(pair.key);
      const here = [...path, key];
      const earlier = seen.get(key);
      if (earlier !== undefined)
        problems.push({
          code: 'duplicate_key',
          path: here,
          message: `is already set on line ${at(earlier).line}; merge the two, or remove one`,
          ...at(offset),
        });
      else seen.set(key, offset);
      if (key === '__proto__') {
        problems.push({ code: 'unknown_key', path: here, message: 'unknown key', ...at(offset) });
        fatal = true;
      }
      pending.push({ node: pair.value, path: here, above });
    }
  }
  if (aliases.length > maxAliasCount) throw new ReferenceError('too many aliases');
  for (const { alias, path, above } of aliases) {
    const isKnown = anchors.has(alias.source);
    if (isKnown && !above.includes(alias.resolve(document))) continue;
    fatal = true;
    const message = isKnown
      ? 'an alias ("*name") refers to a value that contains it'
      : 'text that begins with "*" must be in quotes, because YAML reads it as an alias';
    problems.push({ code: 'yaml_syntax', path, message, ...at(offsetOf(alias)) });
  }
  return { problems, fatal };
}

/**
 * Looks up positions by path. If the file is invalid, there can be a finding for each key, so an index is
 * made of each map.
 */
function locator(document: Document.Parsed, at: (offset: number) => TextPosition): YamlText['locate'] {
  const indexes = new WeakMap<object, Map<string, Pair>>();
  const pairOf = (map: YAMLMap, key: string | number): Pair | undefined => {
    // If there are duplicates, use the last one, because that is where the value comes from.
    const index = indexes.get(map) ?? new Map(map.items.map((pair) => [keyOf(pair), pair]));
    indexes.set(map, index);
    return index.get(String(key));
  };
  return (path, part) => {
    let node: unknown = document.contents;
    let offset = offsetOf(node);
    for (const [depth, step] of path.entries()) {
      const parent = isAlias(node) ? node.resolve(document) : node;
      if (isMap(parent)) {
        const pair = pairOf(parent, step);
        if (pair === undefined) break;
        if (part === 'key' && depth === path.length - 1) return at(offsetOf(pair.key));
        node = pair.value;
        // If a value is empty, as in `key:`, it has no position.
        offset = isScalar(node) && node.value === null ? offsetOf(pair.key) : offsetOf(node);
      } else if (isSeq(parent) && typeof step === 'number' && step < parent.items.length) {
        node = parent.items[step];
        offset = offsetOf(node);
      } else break;
    }
    return at(offset);
  };
}

function keyOf(pair: Pair): string {
  return isScalar(pair.key) ? String(pair.key.value) : '';
}

function offsetOf(node: unknown): number {
  if (node === null || typeof node !== 'object' || !('range' in node) || !Array.isArray(node.range)) return 0;
  const [start] = node.range as unknown[];
  return typeof start === 'number' ? start : 0;
}
