import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import ejs from 'ejs';
import { WaybillError } from '../../errors.ts';
import { textHelpers } from './text-helpers.ts';

/**
 * What a template is told of the request: its endpoint and its parameters, with what was left out filled in.
 */
export interface TextRequest {
  endpoint: string;
  parameters: object;
}

export interface TextRenderer {
  /**
   * Throws `unsupported_format` where the template is missing or cannot be read, and `template_error` where
   * it cannot be compiled or throws.
   */
  render(
    template: TemplateName,
    data: object | null,
    request: TextRequest,
  ): Promise<{ text: string; templateModified: Date }>;
}

export type TemplateName = (typeof templateNames)[number];

/** The templates of `templates.base_dir`, each in a file `<name>.txt.tmpl`. */
export const templateNames = [
  'observations',
  'current_conditions',
  'active_alerts',
  'hourly_forecasts',
  'narrative_forecasts',
  'forecast_discussions',
  'weather_stories',
  'convective_outlooks',
  'convective_outlook_discussions',
] as const;

interface Version {
  /** Of the file's content, as far as the file system tells. */
  tag: string;
  modified: Date;
}

interface Compiled {
  tag: string;
  template: (locals: object) => string;
}

/**
 * Renders the operator's templates (EJS, trusted as configuration is); a file that has changed is compiled
 * again.
 */
export function createTextRenderer(baseDir: string): TextRenderer {
  const compiled = new Map<TemplateName, Compiled>();
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
      hint: 'ask for format=json or format=xml; the log tells the operator where the template fails',
      cause: new Error(`${file}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause }),
    });
  }
}
