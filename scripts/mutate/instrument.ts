import { readFileSync } from 'node:fs';
import type { Mutant } from '@stryker-mutator/api/core';
import type { Ignorer } from '@stryker-mutator/api/ignore';
import type { Logger } from '@stryker-mutator/api/logging';
import { Instrumenter } from '@stryker-mutator/instrumenter';
// Stryker can empty whole blocks but not remove a single statement, and it does not support custom mutators.
// Therefore, this adds one to its internal list. The version of Stryker is pinned, and there is a test in
// case this breaks.
import { allMutators } from '../../node_modules/@stryker-mutator/instrumenter/dist/src/mutators/index.js';

/** A single change to the source. */
export interface SourceMutant {
  readonly id: string;
  readonly file: string;
  /** Starting at 1. */
  readonly line: number;
  /** The exact position in the file, which is different for each mutant. */
  readonly place: string;
  /** The line of source where the change begins. */
  readonly context: string;
  readonly mutator: string;
  readonly original: string;
  readonly replacement: string;
  /** Why the mutant is skipped. Absent if it is not. */
  readonly ignored?: string;
}

export interface Instrumented {
  /** The source files with all of their mutants. A global variable determines which one is active. */
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

/**
 * Skip text for people, because tests should not depend on its wording. Names, codes and keys contain no
 * spaces, so they are still mutated.
 */
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

/** Finds all mutants of these files, and inserts them into the source. None of them is active at first. */
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

/** Matches `log.warn(…)` as well as `context.log.warn(…)`. */
function isLogCall({ type, callee }: Node): boolean {
  const { object } = callee ?? {};
  return type === 'CallExpression' && (object?.name ?? object?.property?.name) === 'log';
}

function textOf(node: Node): string {
  if (node.type === 'StringLiteral') return String(node.value);
  return node.type === 'TemplateLiteral' ? (node.quasis ?? []).map(({ value }) => value.raw).join('') : '';
}

/** Puts a mutant on a single line, and shortens it if it is too long. */
export function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}
