import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import ejs from 'ejs';
import { WaybillError } from '../../errors.ts';
import { textHelpers } from './text-helpers.ts';

/** What a template knows of the request: its endpoint and its parameters, with defaults filled in. */
export interface TextRequest {
  endpoint: string;
  parameters: object;
}

export interface TextRenderer {
  /**
   * Renders the file `<template>.txt.tmpl` of the directory. Throws `unsupported_format` if it is missing or
   * cannot be read, and `template_error` if it cannot be compiled or throws.
   */
  render(
    template: string,
    data: object | null,
    request: TextRequest,
  ): Promise<{ text: string; templateModified: Date }>;
}

interface Version {
  /** Changes whenever the content of the file does, as far as the file system shows. */
  tag: string;
  modified: Date;
}

interface Compiled {
  tag: string;
  template: (locals: object) => string;
}

/** Renders the operator's templates (EJS, trusted like the configuration); compiles changed files again. */
export function createTextRenderer(baseDir: string): TextRenderer {
  const compiled = new Map<string, Compiled>();
  return {
    async render(name, data, request) {
      const file = join(baseDir, `${name}.txt.tmpl`);
      const { tag, modified } = await versionOf(file);
      let known = compiled.get(name);
      if (known?.tag !== tag) {
        const source = await readable(file, () => readFile(file, 'utf8'));
        known = { tag, template: run(file, () => compile(source, file)) };
        compiled.set(name, known);
      }
      const { template } = known;
      const text = run(file, () => template({ ...textHelpers, data, request }));
      return { text, templateModified: modified };
    },
  };
}

function compile(source: string, filename: string): (locals: object) => string {
  // Text is not HTML: nothing is escaped. The options are fixed, so that no request reaches them.
  const escape = (value: string | number | boolean | null | undefined): string => String(value ?? '');
  return ejs.compile(source, { escape, filename, async: false });
}

async function versionOf(file: string): Promise<Version> {
  const { mtime, mtimeNs, size, ino } = await readable(file, () => stat(file, { bigint: true }));
  return { tag: `${mtimeNs}.${size}.${ino}`, modified: mtime };
}

async function readable<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (cause) {
    throw new WaybillError('unsupported_format', 'text is not offered here: its template cannot be read', {
      hint: 'ask for format=json or format=xml',
      cause: new Error(`${file}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause }),
    });
  }
}

function run<T>(file: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    throw new WaybillError('template_error', 'the text template of this endpoint failed', {
      hint: 'ask for format=json or format=xml; the log says where the template fails',
      cause: new Error(`${file}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause }),
    });
  }
}
