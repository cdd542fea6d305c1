import { existsSync, readFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import path from 'node:path';

/** A position in a source file. Lines and columns start at 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** Matches `file:///…/bundle.mjs:12:5`, with or without `file://`, and relative paths. */
const placeInBundle = /(?:file:\/\/)?((?:[^\s()'":]*\/)?\.tap\/bundles-[^\s()'":]+\.mjs):(\d+):(\d+)/g;
const maps = new Map<string, SourceMap | undefined>();

/**
 * Returns the position in the source for a position in a bundle. Node.js can do this, but it reads the source
 * map of every bundle that it loads, which takes as long as running a small test file. This only reads one
 * after a failure.
 *
 * @returns undefined if the code belongs to a package, or if there is no source map
 */
export function originalPlace({ file, line, column }: Place): Place | undefined {
  const entry = mapOf(file)?.findEntry(line - 1, column - 1);
  if (entry === undefined || !('originalSource' in entry)) return undefined;
  if (entry.originalSource.includes('node_modules/')) return undefined;
  const source = path.resolve(path.dirname(file), entry.originalSource);
  return {
    file: path.relative('.', source),
    line: entry.originalLine + 1,
    column: entry.originalColumn + 1,
  };
}

/** Replaces positions in bundles with positions in the source. */
export function withOriginalPlaces(text: string): string {
  return text.replaceAll(placeInBundle, (all, file: string, line: string, column: string) => {
    const place = originalPlace({ file, line: Number(line), column: Number(column) });
    return place === undefined ? all : textOf(place);
  });
}

/** Converts a stack trace to positions in the source. Leaves out packages and the test runner. */
export function originalStack(stack: string): string {
  const frames = stack.split('\n').map(withOriginalPlaces);
  return frames
    .filter((frame) => frame.search(placeInBundle) === -1 && !frame.includes('scripts/test/'))
    .join('\n');
}

/** Returns the first position in a stack trace that is in a source file. */
export function firstPlace(stack: string): Place | undefined {
  const found = /([^\s()]+\.[cm]?[jt]s):(\d+):(\d+)\)?$/m.exec(stack);
  return found === null
    ? undefined
    : { file: found[1] as string, line: Number(found[2]), column: Number(found[3]) };
}

/**
 * Returns the lines around a position, with a marker below it. Returns undefined if the file no longer
 * exists.
 */
export function excerpt({ file, line, column }: Place): string | undefined {
  if (!existsSync(file)) return undefined;
  const lines = readFileSync(file, 'utf8').split('\n');
  const shown = lines.slice(Math.max(0, line - 3), line + 2);
  shown.splice(Math.min(3, line), 0, `${'-'.repeat(Math.max(0, column - 1))}^`);
  return shown.join('\n');
}

function textOf({ file, line, column }: Place): string {
  return `${file}:${line}:${column}`;
}

function mapOf(file: string): SourceMap | undefined {
  if (maps.has(file)) return maps.get(file);
  const name = `${file}.map`;
  const map = existsSync(name)
    ? new SourceMap(JSON.parse(readFileSync(name, 'utf8')) as SourceMapPayload)
    : undefined;
  maps.set(file, map);
  return map;
}
