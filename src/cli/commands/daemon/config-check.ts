import { stat } from 'node:fs/promises';
import path from 'node:path';
import { requireIssuerKeys } from '../../../api/publishers/publishers.ts';
import type { Config } from '../../../core/config/config.ts';
import type { LoadedConfig } from '../../../core/config/load-config.ts';
import { loadConfig } from '../../../core/config/load-config.ts';
import { requirePackages } from '../../../core/config/required-packages.ts';
import { referencedSecrets, requireStrongTokens } from '../../../core/config/secret-references.ts';
import { unsafePaths } from '../../../core/config/unsafe-paths.ts';
import { type Finding, finding, WaybillError } from '../../../core/lib/errors.ts';
import { loadSecrets, type Secrets } from '../../../core/lib/secrets.ts';
import type { KeyPath } from '../../../core/lib/settings/check.ts';
import { plural, shellQuoted } from '../../../core/lib/text.ts';
import { requireTrustedKeys } from '../../../core/signing/trusted-keys.ts';
import { insecureKeyMode } from '../../../core/storage/sftp/sftp-location.ts';
import { exitCodes } from '../../exit-codes.ts';
import { type Output, printError } from '../../output/output.ts';
import { homeDirectory } from '../../process/home-directory.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { requireUsableSecrets } from './check-secrets.ts';
import type { checkConfigCommand } from './commands.ts';
import type { ProbeOutcome } from './probe.ts';

/**
 * Implements `waybill config check`. Mistakes in the file or in the secrets directory are errors (exit code
 * 2), and so are packages that are not installed. Anything that may be different on another machine, such as
 * a missing secret or source, is only a warning. With `probe`, connects to every service and tries every path
 * in the file; if that fails, it is an error (exit code 1).
 */
export async function checkConfig(
  options: OptionsFor<typeof checkConfigCommand>,
  { output }: Io,
): Promise<number> {
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
  } finally {
    // If a server does not respond, the probe's connection can stay open for minutes. Do not wait for it.
    if (options.probe) setImmediate(() => process.stdout.write('', () => process.exit()));
  }
}

interface Checked {
  config: Config;
  warnings: Finding[];
  /** null if `--probe` was not given. */
  probes: ProbeOutcome[] | null;
}

async function check(file: string, probe: boolean): Promise<Checked> {
  const loaded = await loadConfig(file, { home: homeDirectory() });
  const { config } = loaded;
  const secrets = await loadSecrets({ directory: config.secrets.directory, env: process.env });
  requireStrongTokens(config, secrets);
  requirePackages(config);
  requireTrustedKeys(config.pipelines);
  requireIssuerKeys(config);
  await requireUsableSecrets(config, secrets, { isProbed: probe });
  const probes = probe ? await probesOf(loaded, secrets) : null;
  const isReported = (name: string): boolean =>
    probes?.some(({ error }) => error?.message.includes(` ${name}`) === true) === true;
  const missing = referencedSecrets(config, allSecrets)
    .filter(({ name }) => secrets.get(name) === undefined && !isReported(name))
    .map(({ name, neededBy }) =>
      finding(
        'warning',
        'secret_missing',
        `the environment variable ${name} is not set in this shell; ${neededBy} needs it when waybill runs`,
      ),
    );
  // These paths have already been checked by the probes.
  const seen = probe ? [] : await checkEnvironment(loaded, file);
  const scope = { isDaemon: true, sudoUser: process.env['SUDO_UID'] };
  const unsafe = unsafePaths(loaded, scope).map((found) => asWarning(found, file));
  const warnings = [...loaded.warnings, ...secrets.warnings, ...missing, ...seen, ...unsafe];
  return { config, warnings, probes };
}

/** Makes this a warning, because the daemon may run on another machine or as another user. */
function asWarning(found: Finding, file: string): Finding {
  const message = found.severity === 'error' ? `${found.message}, and will be refused` : found.message;
  return { ...found, severity: 'warning', file, message };
}

async function probesOf(loaded: LoadedConfig, secrets: Secrets): Promise<ProbeOutcome[]> {
  const { probeConfiguration } = await import('./probe.ts');
  return probeConfiguration(loaded, secrets);
}

async function report(output: Output, { config, warnings, probes }: Checked, named: string): Promise<void> {
  const { file } = config;
  if (output.isJson) {
    const pipelines = config.pipelines.map(({ id }) => id);
    output.json('config-check', { valid: true, file, pipelines, errors: [], warnings, probes, next: null });
    return;
  }
  for (const warning of warnings) output.warn(warning);
  output.data(`${output.style.green('valid')}  ${file}  ${plural(config.pipelines.length, 'pipeline')}`);
  if (probes === null) return;
  const { printProbeOutcomes } = await import('./probe.ts');
  printProbeOutcomes(probes, named, output);
}

function asFinding({ code, message }: WaybillError, file: string): Finding {
  return finding('error', code, message, { file });
}

const allSecrets = {
  uploadTokens: true,
  queue: true,
  notifiers: true,
  tracing: true,
  databases: true,
  signing: true,
};

export async function printSchema(): Promise<number> {
  const { configJsonSchema } = await import('../../../core/config/json-schema.ts');
  process.stdout.write(`${JSON.stringify(configJsonSchema(), null, 2)}\n`);
  return 0;
}

type FindingLocation = Pick<Finding, 'file' | 'pointer' | 'line' | 'column'>;

interface Location {
  backend: string;
  sshKeyFile?: string | null;
}

/**
 * Checks whether local sources exist, and whether private keys exist and are readable only by their owner.
 * Does not open any connections. Findings are only warnings, because the configuration may be for another
 * machine. `file` is the path of the configuration, for messages.
 */
async function checkEnvironment(
  { config, locate, warnings }: LoadedConfig,
  file: string,
): Promise<Finding[]> {
  const at = (...setting: KeyPath): FindingLocation => ({ file, ...locate(setting) });
  const found = await Promise.all(
    config.pipelines.flatMap(({ source, destinations }, index) => [
      missingSource(source, at('pipelines', index, 'source', 'path')),
      keyFile(source, at('pipelines', index, 'source', 'ssh_key_file')),
      ...destinations.map(({ location }, other) =>
        keyFile(location, at('pipelines', index, 'destinations', other, 'ssh_key_file')),
      ),
    ]),
  );
  // A path with a variable in it cannot exist, and must not be created either.
  const unexpanded = new Set(
    warnings.filter(({ code }) => code === 'variable_in_path').map(({ pointer }) => pointer),
  );
  return found.filter((each) => each !== null).filter(({ pointer }) => !unexpanded.has(pointer));
}

async function missingSource(
  source: Config['pipelines'][number]['source'],
  place: FindingLocation,
): Promise<Finding | null> {
  if (source.backend !== 'local') return null;
  const root = source.path;
  const entry = await stat(root).catch(() => null);
  if (entry?.isDirectory() === true) return null;
  const message =
    entry === null
      ? `${root} does not exist; create it (mkdir -p ${shellQuoted(root)}), or correct the path`
      : `${root} is not a directory; correct the path, so that it names a directory`;
  return finding('warning', 'source_missing', message, place);
}

async function keyFile(location: Location, place: FindingLocation): Promise<Finding | null> {
  const key = location.sshKeyFile;
  if (location.backend !== 'sftp' || key === undefined || key === null) return null;
  try {
    const mode = await insecureKeyMode(key);
    if (mode === null) return null;
    const message = `${key} can be read by other users (mode ${mode}), and will be refused: chmod 600 ${shellQuoted(key)}`;
    return finding('warning', 'key_open_to_others', message, place);
  } catch {
    return finding(
      'warning',
      'key_missing',
      `${key} cannot be checked here; name the file of a private key`,
      place,
    );
  }
}
