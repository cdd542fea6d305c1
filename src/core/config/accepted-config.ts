import { dirname, resolve } from 'node:path';
import type { Finding } from '../lib/errors.ts';
import { accept } from '../lib/settings/accept.ts';
import type { Config } from './config.ts';
import { findingsOf, keyPath } from './faults.ts';
import { relationFaults } from './relations.ts';
import { resolveConfig } from './resolve.ts';
import { configSchema } from './schema/schema.ts';
import { type KeyPath, readYaml, type YamlText } from './yaml-text.ts';

export interface LoadOptions {
  /** Home directory for `~/`; absolute. */
  home: string;
}

/** A valid configuration. */
export interface Loaded {
  config: Config;
  warnings: Finding[];
  /** The position of a setting in the file; for a setting left to its default, the position of its parent. */
  locate: (setting: KeyPath) => { pointer: string; line: number; column: number };
}

/**
 * The configuration in the bytes of `file`; null if it has faults, which `judgeConfig` explains. Relative
 * paths are relative to the directory of `file`. Pure.
 */
export function acceptedConfig(bytes: Uint8Array, file: string, { home }: LoadOptions): Loaded | null {
  const read = readYaml(bytes);
  if (!read.ok || read.yaml.problems.length > 0) return null;
  const { yaml } = read;
  const document = accept(configSchema, yaml.value);
  if (document === null) return null;
  const absolute = resolve(file);
  const faults = relationFaults(yaml.value, { directory: dirname(absolute), home });
  if (faults.some(({ severity }) => severity === 'error')) return null;
  const config = resolveConfig(document.value, { file: absolute, home });
  return { config, warnings: findingsOf(faults, yaml, file), locate: locatorIn(yaml) };
}

export function locatorIn(yaml: YamlText): Loaded['locate'] {
  return (setting) => ({ pointer: keyPath(setting), ...yaml.locate(setting, 'value') });
}
