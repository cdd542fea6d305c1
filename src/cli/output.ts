import { stripVTControlCharacters } from 'node:util';
import pc from 'picocolors';
import type { WaybillError } from '../core/errors.ts';
import { describeFinding, type Finding } from '../core/finding.ts';

/** Where a command writes: data to `out`, everything else to `err`. Colours only where a person looks. */
export interface Output {
  readonly isJson: boolean;
  readonly style: Style;
  data(text: string): void;
  note(text: string): void;
  warn(finding: Finding): void;
  /** The one JSON document of a command. */
  json(kind: string, body: object): void;
}

export type Style = Pick<typeof pc, 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'>;

export function makeOutput(options: { json: boolean; color: boolean }): Output {
  const wantsColour = options.color && process.env['NO_COLOR'] === undefined && process.stdout.isTTY;
  const style = pc.createColors(wantsColour);
  return {
    isJson: options.json,
    style,
    data: (text) => void process.stdout.write(`${text}\n`),
    note: (text) => void process.stderr.write(`${text}\n`),
    warn(finding) {
      if (!options.json) process.stderr.write(`${style.yellow('warning')}  ${describeFinding(finding)}\n`);
    },
    json: (kind, body) =>
      void process.stdout.write(`${JSON.stringify({ schemaVersion: 1, kind, ...body }, inSnakeCase, 2)}\n`),
  };
}

/** Tells what failed, every single finding of it, and what to do next. */
export function tellError(error: WaybillError, style: Style = pc.createColors(process.stderr.isTTY)): void {
  const lines = [`${style.red('error')}  ${error.message}`];
  for (const finding of error.findings) lines.push(`       ${describeFinding(finding)}`);
  if (error.hint !== undefined) lines.push(`${style.cyan('next')}   ${error.hint}`);
  process.stderr.write(`${lines.join('\n')}\n`);
}

/** Rows in columns as wide as their widest cell; the last is not padded. */
export function columns(rows: readonly (readonly string[])[], indent = ''): string[] {
  const widths: number[] = [];
  for (const row of rows)
    row.forEach((cell, index) => (widths[index] = Math.max(widths[index] ?? 0, widthOf(cell))));
  return rows.map((row) =>
    (
      indent +
      row
        .map((cell, index) =>
          index === row.length - 1 ? cell : cell + ' '.repeat((widths[index] ?? 0) - widthOf(cell)),
        )
        .join('  ')
    ).trimEnd(),
  );
}

/** In code points, colours not counted: near enough for a column, and a table of widths would cost more to load than the rest of the output. */
function widthOf(cell: string): number {
  return Array.from(stripVTControlCharacters(cell)).length;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** The core's names in JSON's spelling, object by object as they are written: a run may have a hundred thousand of them. */
function inSnakeCase(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snakeCase(key), inner as unknown]));
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
