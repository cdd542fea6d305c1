import { existsSync, readFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import path from 'node:path';

/** A place in a source file; lines and columns are counted from 1. */
export interface Place {
  readonly file: string;
  readonly line: number;
  readonly column: number;
}

/** `file:///…/bundle.mjs:12:5`, or without the scheme, or relative. */
const placeInBundle = /(?:file:\/\/)?((?:[^\s()'":]*\/)?\.tap\/bundles-[^\s()'":]+\.mjs):(\d+):(\d+)/g;
const maps = new Map<string, SourceMap | undefined>();

/**
 * Maps a place in a test bundle to its source. Node.js could do this, but it would read the source map of
 * each loaded bundle, which takes as long as running a small test file. This reads a map only after a
 * failure.
 *
 * @returns undefined for code of a package, or without a map
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

/** Replaces places in bundles with places in the sources. */
export function withOriginalPlaces(text: string): string {
  return text.replaceAll(placeInBundle, (all, file: string, line: string, column: string) => {
    const place = originalPlace({ file, line: Number(line), column: Number(column) });
    return place === undefined ? all : textOf(place);
  });
}

/** A stack with one frame per line, mapped to the sources, without frames of packages and of the runner. */
export function originalStack(stack: string): string {
  const frames = stack.split('\n').map(withOriginalPlaces);
  return frames
    .filter((frame) => frame.search(placeInBundle) === -1 && !frame.includes('scripts/test/'))
    .join('\n');
}

/** The first place of a stack that is in a source file. */
export function firstPlace(stack: string): Place | undefined {
  const found = /([^\s()]+\.[cm]?[jt]s):(\d+):(\d+)\)?$/m.exec(stack);
  return found === null
    ? undefined
    : { file: found[1] as string, line: Number(found[2]), column: Number(found[3]) };
}

/** The lines around a place, with a mark below it. Empty if the file is gone. */
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
