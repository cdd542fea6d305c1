import { open } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { type Finding, finding, WaybillError } from '../lib/errors.ts';
import { check, type KeyPath } from '../lib/settings/check.ts';
import { shellQuoted } from '../lib/text.ts';
import type { Config } from './config.ts';
import { faultsOf, findingsOf, inOrder, keyPath } from './faults.ts';
import { relationFaults } from './relations.ts';
import { resolveConfig } from './resolve.ts';
import { configSchema } from './schema/schema.ts';
import { readYaml, type YamlProblem } from './yaml-text.ts';

interface LoadOptions {
  /** The home directory as an absolute path, for `~/`. */
  home: string;
}

/** A configuration without errors. */
export interface LoadedConfig {
  config: Config;
  warnings: Finding[];
  /** Returns where in the file a setting is. If it is not in the file, returns the position of its parent. */
  locate: (setting: KeyPath) => { pointer: string; line: number; column: number };
}

export const maxConfigBytes = 4 * 1024 * 1024;
const chunkBytes = 64 * 1024;

/**
 * Loads a configuration file. Throws `config_unreadable` if the file cannot be read. If anything in it is
 * wrong, throws `config_invalid` with all errors and warnings as findings, in the order of the file. The
 * `pointer` of a finding is the path of the key, such as `pipelines[0].destinations[1].path`. Values that
 * could be secrets are never part of a finding.
 */
export async function loadConfig(file: string, options: LoadOptions): Promise<LoadedConfig> {
  const bytes = await readFile(file);
  if (bytes !== undefined) return parseConfig(bytes, file, options);
  const message = `the file is larger than ${maxConfigBytes / 1024 / 1024} MiB`;
  throw invalid(file, [finding('error', 'yaml_syntax', message, { file })]);
}

/**
 * Parses the contents of `file`, which is also the base of relative paths. Throws `config_invalid` in the
 * same way as `loadConfig`.
 */
export function parseConfig(bytes: Uint8Array, file: string, { home }: LoadOptions): LoadedConfig {
  const place = ({ code, message, path, line, column }: YamlProblem): Finding =>
    finding('error', code, message, {
      file,
      pointer: path === null ? null : keyPath(path),
      line,
      column,
    });
  const read = readYaml(bytes);
  if (!read.ok) throw invalid(file, read.problems.map(place));
  const { yaml } = read;
  const absolute = resolve(file);
  const checked = check(configSchema, yaml.value);
  const faults = [
    ...(checked.ok ? [] : faultsOf(checked.problems)),
    ...relationFaults(yaml.value, { directory: dirname(absolute), home }),
  ];
  const findings = inOrder(withoutEchoes([...yaml.problems.map(place), ...findingsOf(faults, yaml, file)]));
  if (!checked.ok || findings.some(({ severity }) => severity === 'error')) throw invalid(file, findings);
  return {
    config: resolveConfig(checked.value, { file: absolute, home }),
    warnings: findings,
    locate: (setting) => ({ pointer: keyPath(setting), ...yaml.locate(setting, 'value') }),
  };
}

/** Leaves out warnings about a setting that has an error: they follow from it. */
function withoutEchoes(findings: readonly Finding[]): Finding[] {
  const wrong = new Set(
    findings.filter(({ severity }) => severity === 'error').map(({ pointer }) => pointer),
  );
  return findings.filter(
    ({ severity, pointer }) => severity === 'error' || pointer === null || !wrong.has(pointer),
  );
}

function invalid(file: string, findings: Finding[]): WaybillError {
  const errors = findings.filter(({ severity }) => severity === 'error').length;
  return new WaybillError(
    'config_invalid',
    `the configuration ${file} has ${errors === 1 ? 'an error' : `${errors} errors`}`,
    {
      hint: `fix this in the file; to check it again: waybill config check --config ${shellQuoted(file)}`,
      findings,
    },
  );
}

/**
 * Returns the contents of the file, or undefined if it is too large. Even if it is a device, no more than the
 * limit is read.
 */
async function readFile(file: string): Promise<Uint8Array | undefined> {
  try {
    const handle = await open(file);
    try {
      const chunks: Uint8Array[] = [];
      let size = 0;
      for (;;) {
        const chunk = Buffer.allocUnsafe(chunkBytes);
        const { bytesRead } = await handle.read(chunk, 0, chunkBytes);
        if (bytesRead === 0) return Buffer.concat(chunks);
        size += bytesRead;
        if (size > maxConfigBytes) return undefined;
        chunks.push(chunk.subarray(0, bytesRead));
      }
    } finally {
      await handle.close();
    }
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
    const [reason, hint] = unreadable[String(code)] ?? [
      cause instanceof Error ? cause.message : 'reading failed',
      'check the path and its permissions',
    ];
    const named = file === '' ? '""' : file;
    throw new WaybillError('config_unreadable', `the configuration ${named} cannot be read: ${reason}`, {
      hint,
      cause,
    });
  }
}

const unreadable: Readonly<Record<string, [string, string]>> = {
  ENOENT: [
    'the file does not exist',
    'check the path after --config, or write an example with waybill init --out FILE',
  ],
  EISDIR: ['it is a directory', 'pass the file in that directory to --config'],
  ENOTDIR: ['a part of the path is not a directory', 'check the path given with --config'],
  EACCES: ['permission denied', 'give the user that runs waybill read access'],
  EPERM: ['permission denied', 'give the user that runs waybill read access'],
};
