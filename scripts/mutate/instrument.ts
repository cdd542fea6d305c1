import { readFileSync } from 'node:fs';
import type { Mutant } from '@stryker-mutator/api/core';
import type { Ignorer } from '@stryker-mutator/api/ignore';
import type { Logger } from '@stryker-mutator/api/logging';
import { Instrumenter } from '@stryker-mutator/instrumenter';
// Stryker empties blocks, but does not remove single statements and accepts no external mutators. This
// reaches past the package's exports into its mutator list. The version is pinned, and the campaign's test
// detects a break.
import { allMutators } from '../../node_modules/@stryker-mutator/instrumenter/dist/src/mutators/index.js';

/** One change at one place of the source. */
export interface SourceMutant {
  readonly id: string;
  readonly file: string;
  /** Starts at 1. */
  readonly line: number;
  /** Exact position in the file, which distinguishes similar mutants. */
  readonly place: string;
  /** The line of the first change. */
  readonly context: string;
  readonly mutator: string;
  readonly original: string;
  readonly replacement: string;
  /** The reason it is not run, if any. */
  readonly ignored?: string;
}

export interface Instrumented {
  /** The source of each file with all its mutants. A global selects the active one. */
  readonly sources: ReadonlyMap<string, string>;
  readonly mutants: readonly SourceMutant[];
}

const longest = 90;

interface Node {
  readonly type: string;
  readonly value?: unknown;
  readonly quasis?: readonly { readonly value: { readonly raw: string } }[];
  readonly expression?: Node;
  readonly argument?: Node;
  readonly callee?: Node;
  readonly object?: Node;
  readonly property?: Node;
  readonly name?: string;
  readonly properties?: readonly { readonly key?: { readonly name?: string } }[];
}

/** Tests should not repeat prose. Names, codes and keys contain no space. */
const prose: Ignorer = {
  shouldIgnore(path) {
    const { node } = path as { node: Node };
    const isHint = node.properties?.length === 1 && node.properties[0]?.key?.name === 'hint';
    const isLogged = isLogCall(node) || (node.expression !== undefined && isLogCall(node.expression));
    return isHint || isLogged || textOf(node).includes(' ') ? 'words for a person' : undefined;
  },
};

const quiet: Logger = {
  isTraceEnabled: () => false,
  isDebugEnabled: () => false,
  isInfoEnabled: () => false,
  isWarnEnabled: () => true,
  isErrorEnabled: () => true,
  isFatalEnabled: () => true,
  trace: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: console.warn,
  error: console.error,
  fatal: console.error,
};

const statementRemoval = {
  name: 'StatementRemoval',
  *mutate(path: { node: unknown }): Generator<never> {
    const node = path.node as Node;
    if (node.type !== 'ExpressionStatement') return;
    const { expression } = node;
    const called = expression?.type === 'AwaitExpression' ? expression.argument : expression;
    if (called?.type.endsWith('CallExpression')) yield { type: 'EmptyStatement' } as never;
  },
};

/** Finds every mutant of the files and inserts them, switched off. */
export async function instrument(files: readonly string[]): Promise<Instrumented> {
  if (!allMutators.includes(statementRemoval)) allMutators.push(statementRemoval);
  const given = files.map((name) => ({ name, mutate: true, content: readFileSync(name, 'utf8') }));
  const options = { plugins: null, excludedMutations: [], ignorers: [prose] };
  const { files: made, mutants } = await new Instrumenter(quiet).instrument(given, options);
  const lines = new Map(given.map(({ name, content }) => [name, content.split('\n')]));
  return {
    sources: new Map(made.map(({ name, content }) => [name, content])),
    mutants: mutants.map((mutant) => sourceMutant(mutant, lines.get(mutant.fileName) ?? [])),
  };
}

function sourceMutant(mutant: Mutant, lines: readonly string[]): SourceMutant {
  const { id, fileName, mutatorName, replacement, location, status, statusReason } = mutant;
  const { start, end } = location;
  const original = lines
    .slice(start.line, end.line + 1)
    .map((line, index, all) => {
      const to = index === all.length - 1 ? end.column : undefined;
      return line.slice(index === 0 ? start.column : 0, to);
    })
    .join('\n');
  return {
    id,
    file: fileName,
    line: start.line + 1,
    place: [start.line, start.column, end.line, end.column].join(':'),
    context: oneLine(lines[start.line] ?? ''),
    mutator: mutatorName,
    original: oneLine(original),
    replacement: oneLine(replacement),
    ...(status === 'Ignored' && { ignored: statusReason ?? 'ignored' }),
  };
}

/** `log.warn(…)`, `context.log.warn(…)`. */
function isLogCall({ type, callee }: Node): boolean {
  const { object } = callee ?? {};
  return type === 'CallExpression' && (object?.name ?? object?.property?.name) === 'log';
}

function textOf(node: Node): string {
  if (node.type === 'StringLiteral') return String(node.value);
  return node.type === 'TemplateLiteral' ? (node.quasis ?? []).map(({ value }) => value.raw).join('') : '';
}

/** Shortens a mutant to one line of a readable length. Short lines are returned unchanged. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
