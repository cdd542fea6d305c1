import type joi from 'joi';
import { dirname, resolve } from 'node:path';
import { WaybillError, finding, type Finding } from '../lib/errors.ts';
import { joiSchema } from '../lib/settings/joi-schema.ts';
import {
  acceptedConfig,
  findingsOf,
  inOrder,
  keyPath,
  locatorIn,
  type Loaded,
  type LoadOptions,
} from './accepted-config.ts';
import type { ConfigDocument } from './document.ts';
import { relationFaults } from './relations.ts';
import { resolveConfig } from './resolve.ts';
import { schemaFaults } from './schema/findings.ts';
import { configSchema } from './schema/schema.ts';
import { readYaml, type KeyPath } from './yaml-text.ts';

/** The configuration in the bytes of `file`. Throws `config_invalid` as `loadConfig` does. */
export function parseConfig(bytes: Uint8Array, file: string, options: LoadOptions): Loaded {
  return acceptedConfig(bytes, file, options) ?? judgeConfig(bytes, file, options);
}

/** The same of a file that is probably wrong; in the end, the schema decides. */
export function judgeConfig(bytes: Uint8Array, file: string, { home }: LoadOptions): Loaded {
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
  const findings = inOrder([
    ...yaml.problems.map((item) => place(file, item)),
    ...findingsOf(faults, yaml, file),
  ]);
  if (value === undefined || findings.some(({ severity }) => severity === 'error'))
    throw invalid(file, findings);
  const config = resolveConfig(value, { file: absolute, home });
  return { config, warnings: findings, locate: locatorIn(yaml) };
}

export function tooLarge(file: string, maxBytes: number): WaybillError {
  const message = `the file is larger than ${maxBytes / 1024 / 1024} MiB`;
  return invalid(file, [finding('error', 'yaml_syntax', message, { file })]);
}

/**
 * Nothing is converted (`"8080"` is no number), and everything that is wrong is reported at once. The message
 * of every failure is the label of the schema that failed, which says what was expected there.
 */
export const validationOptions: joi.ValidationOptions = {
  abortEarly: false,
  convert: false,
  messages: { '*': '{#label}' },
  errors: { wrap: { label: false } },
};

function validate(document: unknown): {
  error?: joi.ValidationError | undefined;
  value: ConfigDocument | undefined;
} {
  const schema = joiSchema(configSchema);
  try {
    return schema.validate(document, validationOptions);
  } catch (error) {
    // Joi passes findings on as arguments, and a hundred thousand of them exhaust the stack: then the first
    // must do.
    if (!(error instanceof RangeError)) throw error;
    return schema.validate(document, { ...validationOptions, abortEarly: true });
  }
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
