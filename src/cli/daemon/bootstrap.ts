import type { Config } from '../../core/config/config.ts';
import { loadConfig } from '../../core/config/load-config.ts';
import { secretValues } from '../../core/config/secret-references.ts';
import { requireSafePaths } from '../../core/config/unsafe-paths.ts';
import { type Clock, systemClock } from '../../core/lib/clock.ts';
import { describeFinding, type Finding } from '../../core/lib/errors.ts';
import { type SharedEventLoop, sharedEventLoop } from '../../core/lib/event-loop.ts';
import { type Log, type LogControl, logControl, newRedaction } from '../../core/lib/log.ts';
import { loadSecrets, type Secrets } from '../../core/lib/secrets.ts';
import { controlOf, makeLogger } from '../output/logger.ts';
import { daemonProcess, type RunningDaemon } from '../process/daemon-process.ts';
import { homeDirectory } from '../process/home-directory.ts';

/** The command line options that all long-running programs have. */
export interface ProgramFlags {
  config: string;
  verbose: boolean;
  color: boolean;
}

export interface ProgramOptions {
  configFile: string;
  log: Log;
  /** The log level is set here once the configuration has been read. */
  logging?: LogControl;
  env: NodeJS.ProcessEnv;
  /**
   * Called with the values of all secrets before they are used, and again on each reload, to keep them out of
   * the log.
   */
  onSecrets?: (values: string[]) => void;
  /** Called when a reload begins, and again when it has ended, whether or not it succeeded. */
  onReload?: (phase: 'begun' | 'ended') => void;
}

export interface ReadConfig {
  config: Config;
  secrets: Secrets;
  warnings: Finding[];
}

export interface ProgramContext extends SharedEventLoop {
  /** The configuration from startup. A reload does not change it. */
  config: Config;
  secrets: Secrets;
  /**
   * Reads the configuration and the secrets again. Throws the same errors as `bootstrap`, except for the
   * errors of `check`.
   */
  readAgain: () => Promise<ReadConfig>;
  clock: Clock;
  log: Log;
  logging: LogControl;
  env: Readonly<Record<string, string>>;
}

/**
 * Reads the configuration and the secrets, and logs warnings about them. `check` can reject the configuration
 * before secrets are read. Throws `config_unreadable`, `config_invalid`, `unsafe_permissions`,
 * `secrets_invalid`, and the errors of `check`.
 */
export async function bootstrap(
  { configFile, log, logging = logControl(), env, onSecrets }: ProgramOptions,
  check: (config: Config) => void = () => undefined,
): Promise<ProgramContext> {
  const read = async (onConfig: (config: Config) => void = () => undefined): Promise<ReadConfig> => {
    const loaded = await loadConfig(configFile, { home: env['HOME'] ?? homeDirectory() });
    const { config } = loaded;
    onConfig(config);
    const scope = { isDaemon: true, sudoUser: env['SUDO_UID'] };
    const warnings = [...loaded.warnings, ...requireSafePaths(loaded, scope)];
    const secrets = await loadSecrets({ directory: config.secrets.directory, env });
    onSecrets?.(secretValues(config, secrets));
    return { config, secrets, warnings: [...warnings, ...secrets.warnings] };
  };
  const { config, secrets, warnings } = await read((loaded) => {
    logging.set(loaded.log);
    check(loaded);
  });
  logWarnings(log, warnings);
  const readAgain = (): Promise<ReadConfig> => read();
  const clock = systemClock;
  return {
    config,
    secrets,
    readAgain,
    clock,
    ...sharedEventLoop(clock),
    log,
    logging,
    env: definedValues(env),
  };
}

/** Runs a program until it gets SIGINT or SIGTERM. A second signal ends the process immediately. */
export async function runUntilStopped(
  flags: ProgramFlags,
  start: (options: ProgramOptions) => Promise<RunningDaemon>,
): Promise<number> {
  const redaction = newRedaction();
  const log = await makeLogger({ ...flags, pretty: true, redaction });
  const daemon = daemonProcess(log);
  const running = await start({
    configFile: flags.config,
    log,
    logging: controlOf(log, flags),
    env: process.env,
    onSecrets: (values) => redaction.add(values),
    onReload: (phase) => daemon.onReload(phase),
  });
  return daemon.runUntilStopped(running);
}

/** Returns a function that does the work on the first call. Later calls return the same promise. */
export function runOnce<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => (running ??= work());
}

export function logWarnings(log: Log, warnings: readonly Finding[]): void {
  for (const warning of warnings) log.warn({ code: warning.code }, describeFinding(warning));
}

function definedValues(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
