import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ejs from 'ejs';
import { errorMessage, WaybillError } from '../../core/lib/errors.ts';
import type { AnswerMeta } from './formats.ts';
import { textHelpers } from './text-helpers.ts';

/** The request as templates see it: the endpoint, and all parameters with their default values. */
export interface TextRequest {
  endpoint: string;
  parameters: object;
}

export interface TextRenderer {
  /**
   * Renders the template in `<template>.txt.tmpl`. Throws `unsupported_format` if the file is missing or
   * cannot be read, and `template_error` if it cannot be compiled or throws an error.
   */
  render(
    template: string,
    data: object | null,
    request: TextRequest,
    meta?: AnswerMeta | null,
  ): Promise<string>;
}

interface Compiled {
  tag: string;
  template: (locals: object) => string;
}

/** The directory of the templates that come with the package. */
export const packagedTemplates = fileURLToPath(new URL('../../../templates/weather', import.meta.url));

/**
 * Renders templates in EJS. They belong to the administrator, and are trusted in the same way as the
 * configuration. If a file changes, it is compiled again.
 */
export function createTextRenderer(baseDir: string): TextRenderer {
  const compiled = new Map<string, Compiled>();
  return {
    async render(name, data, request, meta = null) {
      const file = join(baseDir, `${name}.txt.tmpl`);
      const tag = await versionOf(file);
      let known = compiled.get(name);
      if (known?.tag !== tag) {
        const source = await readable(file, () => readFile(file, 'utf8'));
        known = { tag, template: run(file, () => compile(source, file)) };
        compiled.set(name, known);
      }
      const { template } = known;
      const text = run(file, () => template({ ...textHelpers, data, request, meta }));
      return `${headingOf(meta, data)}${text}`;
    },
  };
}

/**
 * Compiles templates in order to check them, without rendering anything. Returns the names of those that are
 * missing. Throws `template_error` for the first one that cannot be read or compiled.
 */
export async function missingTemplates(baseDir: string, names: readonly string[]): Promise<string[]> {
  const missing: string[] = [];
  for (const name of names) {
    const file = join(baseDir, `${name}.txt.tmpl`);
    try {
      compile(await readFile(file, 'utf8'), file);
    } catch (cause) {
      if (cause instanceof Error && 'code' in cause && cause.code === 'ENOENT') missing.push(name);
      else
        throw new WaybillError('template_error', `${file}: ${firstLine(cause)}`, {
          hint: 'fix the template; docs/weather.md lists its variables',
          cause,
        });
    }
  }
  return missing;
}

function firstLine(thrown: unknown): string {
  const [line = ''] = errorMessage(thrown).split('\n');
  return line;
}

function compile(source: string, filename: string): (locals: object) => string {
  // Escape nothing, because the output is plain text. No other options are set, so that a request cannot
  // influence them.
  const escape = (value: string | number | boolean | null | undefined): string => String(value ?? '');
  return ejs.compile(source, { escape, filename, async: false });
}

/** Returns a value that changes when the file does, going by its modification time, size and inode. */
async function versionOf(file: string): Promise<string> {
  return readable(file, async () => {
    const found = await stat(file, { bigint: true });
    // Reading from a named pipe or a device might never end.
    if (!found.isFile()) throw new Error('it is not a regular file');
    return `${found.mtimeNs}.${found.size}.${found.ino}`;
  });
}

/**
 * Returns the lines to print before the template's output, with information that template authors would
 * otherwise have to handle.
 */
function headingOf(meta: AnswerMeta | null, data: object | null): string {
  if (meta === null) return '';
  const { unknown = [], otherIssues = [], newerIssuedAt } = meta;
  const given = data !== null && 'timeZone' in data ? data.timeZone : null;
  const zone = typeof given === 'string' ? given : 'UTC';
  const moment = (instant: string | undefined): string => textHelpers.time(instant, zone);
  const named = (field: string): string =>
    field.replace('maximumCategory', 'highest category').replace('_', ' ');
  const lines = [
    ...(meta.stale === true ? [`STALE: these are the newest data, of ${moment(meta.asOf)}`] : []),
    ...(newerIssuedAt === undefined
      ? []
      : [`A newer issue, of ${moment(newerIssuedAt)}, has arrived in part; this is the last whole one`]),
    ...unknown.map(({ field }) => `NOT KNOWN: ${named(field)}: ${textHelpers.why(meta, field)}`),
    ...otherIssues.map(({ field, issuedAt }) => `${named(field)}: of the issue of ${moment(issuedAt)}`),
  ];
  return lines.length === 0 ? '' : `${lines.map((line) => `*** ${line} ***\n`).join('')}\n`;
}

async function readable<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw new WaybillError('unsupported_format', 'text is not offered here: its template cannot be read', {
      hint: 'ask for format=json or format=xml; the administrator sets templates.base_dir',
      cause: new Error(`${file}: ${errorMessage(cause)}`, { cause }),
    });
  }
}

function run<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new WaybillError('template_error', 'the text template of this endpoint failed', {
      hint: 'ask for format=json or format=xml; the log says where the template fails',
      cause: new Error(`${file}: ${errorMessage(cause)}`, { cause }),
    });
  }
}
