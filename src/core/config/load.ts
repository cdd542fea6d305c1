import type joi from 'joi';
import { open } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { WaybillError } from '../errors.ts';
import { finding, type Finding } from '../finding.ts';
import type { Config } from './config.ts';
import type { ConfigDocument } from './document.ts';
import { relationFaults } from './relations.ts';
import { resolveConfig } from './resolve.ts';
import { configSchema, validationOptions } from './schema/schema.ts';
import { schemaFaults } from './schema/findings.ts';
import { readYaml, type KeyPath } from './yaml-text.ts';

const maxBytes = 4 * 1024 * 1024;

export interface LoadOptions {
  /** Home directory, absolute: what `~/` stands for. */
  home: string;
}

/** A valid configuration. */
export interface Loaded {
  config: Config;
  warnings: Finding[];
  /** Where a setting stands in the file; of one that is left to its default, what is around it. */
  locate: (setting: KeyPath) => { pointer: string; line: number; column: number };
}

/**
 * Reads and checks a configuration file. Throws `config_unreadable` if the file cannot be read and
 * `config_invalid` with everything that is wrong in it (and the warnings) as findings, in the order of the
 * file. A finding's `pointer` is the key's path, like `pipelines[0].destinations[1].path`. No finding repeats
 * a value that may be a secret.
 */
export async function loadConfig(file: string, options: LoadOptions): Promise<Loaded> {
  const bytes = await readFile(file);
  if (bytes === undefined)
    throw invalid(file, [problem(file, `the file is larger than ${maxBytes / 1024 / 1024} MiB`)]);
  return parseConfig(bytes, file, options);
}

/**
 * `loadConfig` without the file system: judges the bytes of `file`, against whose directory relative paths
 * are resolved.
 */
export function parseConfig(bytes: Uint8Array, file: string, { home }: LoadOptions): Loaded {
  const read = readYaml(bytes);
  if (!read.ok)
    throw invalid(
      file,
      read.problems.map((item) => place(file, item)),
    );

  const { yaml } = read;
  const absolute = resolve(file);
  const { error, value } = validate(yaml.value);
  const faults = [
    ...schemaFaults(error),
    ...relationFaults(yaml.value, { directory: dirname(absolute), home }),
  ];
  const findings = [
    ...yaml.problems.map((item) => place(file, item)),
    ...faults.map(({ severity, code, path, at = path, part, message }) =>
      finding(severity, code, message, { file, pointer: keyPath(path), ...yaml.locate(at, part) }),
    ),
  ].sort((a, b) => (a.line ?? 0) - (b.line ?? 0) || (a.column ?? 0) - (b.column ?? 0));

  if (value === undefined || findings.some(({ severity }) => severity === 'error'))
    throw invalid(file, findings);
  return {
    config: resolveConfig(value, { file: absolute, home }),
    warnings: findings,
    locate: (setting) => ({ pointer: keyPath(setting), ...yaml.locate(setting, 'value') }),
  };
}

function validate(document: unknown): {
  error?: joi.ValidationError | undefined;
  value: ConfigDocument | undefined;
} {
  try {
    return configSchema.validate(document, validationOptions);
  } catch (error) {
    // Joi passes findings on as arguments, and a hundred thousand of them exhaust the stack: then the first
    // must do.
    if (!(error instanceof RangeError)) throw error;
    return configSchema.validate(document, { ...validationOptions, abortEarly: true });
  }
}

/** `pipelines[0].destinations[1].path`; the document itself is ''. */
export function keyPath(path: KeyPath): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    if (!/^[A-Za-z0-9_-]{1,64}$/.test(step)) return `${text}[${JSON.stringify(step.slice(0, 64))}]`;
    return text === '' ? step : `${text}.${step}`;
  }, '');
}

function place(
  file: string,
  item: { code: string; message: string; path: KeyPath | null; line: number; column: number },
): Finding {
  const { code, message, path, line, column } = item;
  return finding('error', code, message, {
    file,
    pointer: path === null ? null : keyPath(path),
    line,
    column,
  });
}

function problem(file: string, message: string): Finding {
  return finding('error', 'yaml_syntax', message, { file });
}

function invalid(file: string, findings: Finding[]): WaybillError {
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  return new WaybillError(
    'config_invalid',
    `the configuration ${file} has ${errors === 1 ? 'an error' : `${errors} errors`}`,
    {
      hint: 'mend what is named and run again; docs/configuration.md describes every setting',
      findings,
    },
  );
}

/** The bytes, or undefined if there are too many. Reads no more than that even from a device. */
async function readFile(file: string): Promise<Uint8Array | undefined> {
  try {
    const handle = await open(file);
    try {
      const chunks: Uint8Array[] = [];
      let size = 0;
      for await (const chunk of handle.createReadStream({
        end: maxBytes,
        autoClose: false,
      }) as AsyncIterable<Buffer>) {
        chunks.push(chunk);
        size += chunk.byteLength;
      }
      return size > maxBytes ? undefined : Buffer.concat(chunks);
    } finally {
      await handle.close();
    }
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    const [reason, hint] = unreadable[String(code)] ?? [
      cause instanceof Error ? cause.message : 'reading failed',
      'check the path and its permissions',
    ];
    throw new WaybillError('config_unreadable', `the configuration ${file} cannot be read: ${reason}`, {
      hint,
      cause,
    });
  }
}

const unreadable: Readonly<Record<string, [string, string]>> = {
  ENOENT: [
    'there is no such file',
    'check the path given with --config; waybill init writes a configuration to begin with',
  ],
  EISDIR: ['it is a directory', 'name the file in it with --config'],
  ENOTDIR: ['a part of the path is no directory', 'check the path given with --config'],
  EACCES: ['permission denied', 'let the user that runs waybill read it'],
  EPERM: ['permission denied', 'let the user that runs waybill read it'],
};
