import { homedir } from 'node:os';
import path from 'node:path';
import type { Config } from '../../../core/config/config.ts';
import type { Loaded } from '../../../core/config/accepted-config.ts';
import { loadConfig } from '../../../core/config/load.ts';
import { loadSecrets, type Secrets } from '../../../core/lib/secrets.ts';
import { referencedSecrets, requireStrongTokens } from '../../../core/config/secret-references.ts';
import { unsafePaths } from '../../../core/config/unsafe-paths.ts';
import { requirePackages } from '../../../core/config/required-packages.ts';
import { WaybillError, finding, type Finding } from '../../../core/lib/errors.ts';
import type { ConfiguredOptions } from '../../options.ts';
import { exitCodes } from '../../exit-codes.ts';
import type { Tried } from './probe/trial.ts';
import { lookAround } from './surroundings.ts';
import { makeOutput, plural, printError, type Output } from '../../output.ts';

export type CheckOptions = Pick<ConfiguredOptions, 'config' | 'format' | 'color'> & { probe: boolean };

/**
 * `waybill config check`: every mistake in the file and in the secrets directory, and every package that is
 * not installed, is an error (exit code 2). What may differ on the machine that the daemon runs on, such as
 * missing secrets and sources, is a warning. With `probe` everything that the file names is tried, and a
 * failure is an error (exit code 1).
 */
export async function checkConfig(options: CheckOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  try {
    const checked = await check(options.config, options.probe);
    await report(output, checked, options.config);
    return checked.probes?.some((each) => each.error !== null) === true ? 1 : 0;
  } catch (error) {
    if (!output.isJson || !(error instanceof WaybillError)) throw error;
    const findings = error.findings.length > 0 ? error.findings : [asFinding(error, options.config)];
    output.json('config-check', {
      valid: false,
      file: path.resolve(options.config),
      pipelines: [],
      errors: findings.filter(({ severity }) => severity === 'error'),
      warnings: findings.filter(({ severity }) => severity === 'warning'),
      probes: null,
      next: error.hint ?? null,
    });
    printError(error, { color: options.color });
    return exitCodes[error.code];
  }
}

interface Checked {
  config: Config;
  warnings: Finding[];
  /** Null: nothing was tried. */
  probes: Tried[] | null;
}

async function check(file: string, probe: boolean): Promise<Checked> {
  const loaded = await loadConfig(file, { home: homedir() });
  const { config } = loaded;
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  requireStrongTokens(config.uploadTokens, secrets);
  requirePackages(config);
  const probes = probe ? await probesOf(loaded, secrets) : null;
  const isTold = (name: string): boolean =>
    probes?.some(({ error }) => error?.message.includes(` ${name}`) === true) === true;
  const missing = referencedSecrets(config, everything)
    .filter(({ name }) => secrets.get(name) === undefined && !isTold(name))
    .map(({ name, neededBy }) =>
      finding('warning', 'secret_missing', `${name} is not set here; ${neededBy} needs it`),
    );
  // What was tried needs no guess.
  const seen = probe ? [] : await lookAround(loaded, file);
  const scope = { isDaemon: true, sudoUser: process.env['SUDO_UID'] };
  const unsafe = unsafePaths(loaded, scope).map((found) => asWarning(found, file));
  const warnings = [...loaded.warnings, ...secrets.warnings, ...missing, ...seen, ...unsafe];
  return { config, warnings, probes };
}

/** The daemon may run as another user, or on another machine. */
function asWarning(found: Finding, file: string): Finding {
  const message = found.severity === 'error' ? `${found.message}, and will be refused` : found.message;
  return { ...found, severity: 'warning', file, message };
}

async function probesOf(loaded: Loaded, secrets: Secrets): Promise<Tried[]> {
  const { probeConfiguration } = await import('./probe/probe-configuration.ts');
  return probeConfiguration(loaded, secrets);
}

async function report(output: Output, { config, warnings, probes }: Checked, given: string): Promise<void> {
  const { file } = config;
  if (output.isJson) {
    const pipelines = config.pipelines.map(({ id }) => id);
    output.json('config-check', { valid: true, file, pipelines, errors: [], warnings, probes, next: null });
    return;
  }
  for (const warning of warnings) output.warn(warning);
  output.data(`${output.style.green('valid')}  ${file}  ${plural(config.pipelines.length, 'pipeline')}`);
  if (probes === null) return;
  const { printTried } = await import('./probe/probe-configuration.ts');
  printTried(probes, given, output);
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
