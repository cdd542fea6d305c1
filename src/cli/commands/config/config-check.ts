import { homedir } from 'node:os';
import path from 'node:path';
import type { Config } from '../../../core/config/config.ts';
import { loadConfig } from '../../../core/config/load.ts';
import { loadSecrets } from '../../../core/secrets.ts';
import { referencedSecrets } from '../../../core/config/secret-references.ts';
import { requireStrongTokens } from '../../../core/config/weak-tokens.ts';
import { WaybillError } from '../../../core/errors.ts';
import { finding, type Finding } from '../../../core/finding.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { exitCodes } from '../../exit-codes.ts';
import { lookAround } from './surroundings.ts';
import { makeOutput, plural, printError, type Output } from '../../output.ts';

export type CheckOptions = Pick<ConfiguredOptions, 'config' | 'format' | 'color'>;

/**
 * `waybill config check`: everything that is wrong is told, in the file, in the secrets directory and around
 * it, and is an error (exit code 2). What may be otherwise on the machine that the daemon runs on, such as
 * secrets and sources that are missing here, is a warning.
 */
export async function checkConfig(options: CheckOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  try {
    report(output, await check(options.config));
    return 0;
  } catch (error) {
    if (!output.isJson || !(error instanceof WaybillError)) throw error;
    const findings = error.findings.length > 0 ? error.findings : [asFinding(error, options.config)];
    output.json('config-check', {
      valid: false,
      file: path.resolve(options.config),
      pipelines: [],
      errors: findings.filter(({ severity }) => severity === 'error'),
      warnings: findings.filter(({ severity }) => severity === 'warning'),
      next: error.hint ?? null,
    });
    printError(error, { color: options.color, json: false });
    return exitCodes[error.code];
  }
}

interface Checked {
  config: Config;
  warnings: Finding[];
}

async function check(file: string): Promise<Checked> {
  const { config, warnings } = await loadConfig(file, { home: homedir() });
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  requireStrongTokens(config.uploadTokens, secrets);
  const missing = referencedSecrets(config, everything)
    .filter(({ name }) => secrets.get(name) === undefined)
    .map(({ name, neededBy }) =>
      finding('warning', 'secret_missing', `${name} is not set here; ${neededBy} needs it`),
    );
  return {
    config,
    warnings: [...warnings, ...secrets.warnings, ...missing, ...(await lookAround(config, file))],
  };
}

function report(output: Output, { config, warnings }: Checked): void {
  const { file } = config;
  if (output.isJson) {
    const pipelines = config.pipelines.map(({ id }) => id);
    output.json('config-check', { valid: true, file, pipelines, errors: [], warnings, next: null });
    return;
  }
  for (const warning of warnings) output.warn(warning);
  output.data(`${output.style.green('valid')}  ${file}  ${plural(config.pipelines.length, 'pipeline')}`);
}

function asFinding({ code, message }: WaybillError, file: string): Finding {
  return finding('error', code, message, { file });
}

const everything = { uploadTokens: true, queue: true, notifiers: true, tracing: true, databases: true };

/** `waybill config schema`. */
export async function printSchema(): Promise<number> {
  const { configJsonSchema } = await import('../../../core/config/json-schema.ts');
  process.stdout.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  return 0;
}
