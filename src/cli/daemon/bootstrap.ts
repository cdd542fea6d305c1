import { homedir } from 'node:os';
import { sharedBreath, type SharedBreath } from '../../core/lib/breath.ts';
import { systemClock, type Clock } from '../../core/lib/clock.ts';
import type { Config } from '../../core/config/config.ts';
import { loadConfig } from '../../core/config/load.ts';
import { requireSafePaths } from '../../core/config/unsafe-paths.ts';
import { secretValues } from '../../core/config/secret-references.ts';
import { openNotifiers } from '../../core/notify/open-notifiers.ts';
import { describeFinding, type Finding } from '../../core/lib/errors.ts';
import { type Log, logControl, type LogControl } from '../../core/lib/log.ts';
import { loggedNotifier } from '../../core/notify/logged-notifier.ts';
import type { Outcome, Postponed } from '../../core/notify/lane.ts';
import type { Notifier } from '../../core/notify/notifier.ts';
import type { EventKeeping } from '../../workers/queue/event-keeping.ts';
import { noteOfOutcome, noteOfPostponed } from '../../workers/queue/run-record.ts';
import { openTracing, type Tracing } from '../../core/tracing/open-tracing.ts';
import type { Tracer } from '../../core/tracing/span.ts';
import { productVersion } from '../../api/version.ts';
import { loadSecrets, type Secrets } from '../../core/lib/secrets.ts';
import type { ProcessMetrics } from '../../api/metrics/process-metrics.ts';

/** How a long-running program is started. */
export interface ProgramOptions {
  configFile: string;
  log: Log;
  /** What `log` shows; set to what the configuration says. */
  logging?: LogControl;
  env: NodeJS.ProcessEnv;
  /**
   * Called with the values of all secrets, before any of them is used, so that logs can redact them; again at
   * each reload.
   */
  onSecrets?: (values: string[]) => void;
  /** Told when a reload begins and when it has ended, whether it was refused or not. */
  onReload?: (phase: 'begun' | 'ended') => void;
}

/** The configuration file and the secrets, as they were read together. */
export interface ReadConfig {
  config: Config;
  secrets: Secrets;
  warnings: Finding[];
}

/** What every long-running program is built on. */
export interface Foundation extends SharedBreath {
  /** As it was at the start; what a reload may change of it is asked for elsewhere. */
  config: Config;
  secrets: Secrets;
  /** Reads file and secrets again. Throws as `bootstrap` does, without what `check` throws. */
  readAgain: () => Promise<ReadConfig>;
  clock: Clock;
  log: Log;
  logging: LogControl;
  env: Readonly<Record<string, string>>;
}

/**
 * Loads configuration and secrets and logs their warnings. `check` can refuse the configuration before any
 * secret is read. Throws `config_unreadable`, `config_invalid`, `unsafe_permissions`, `secrets_invalid` or
 * what `check` throws.
 */
export async function bootstrap(
  { configFile, log, logging = logControl(), env, onSecrets }: ProgramOptions,
  check: (config: Config) => void = () => undefined,
): Promise<Foundation> {
  const read = async (onConfig: (config: Config) => void = () => undefined): Promise<ReadConfig> => {
    const loaded = await loadConfig(configFile, { home: env['HOME'] ?? homedir() });
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
  return { config, secrets, readAgain, clock, ...sharedBreath(clock), log, logging, env: definedValues(env) };
}

export interface ProgramNotifier extends Pick<Notifier, 'undelivered' | 'redeliver' | 'notify'> {
  /**
   * Opens the notifiers of another configuration; `replace` puts them in the place of these. Throws
   * `secrets_invalid`, and changes nothing then.
   */
  prepare(next: ReadConfig): Promise<{ replace: () => void; warnings: Finding[] }>;
  /** Gives each pending delivery one more try, 10 seconds in total. */
  close(): Promise<void>;
}

const deliveryGraceMs = 10_000;

/**
 * Opens the configured notifiers; `onOutcome` gets the result of each delivery, after it was logged. Events
 * that `events` has kept are delivered first, and it keeps what is not delivered when the process ends, what
 * is given up, and, with the runs, what became of deliveries. Throws `config_invalid` or `secrets_invalid` if
 * a notifier cannot be opened.
 */
export async function openNotifier(
  { config, secrets, clock, log }: Foundation,
  {
    events,
    tracer,
    onOutcome,
  }: {
    events: Pick<EventKeeping, 'outbox' | 'undelivered' | 'note'>;
    tracer: Tracer;
    onOutcome: (outcome: Outcome) => void;
  },
): Promise<ProgramNotifier> {
  const stopping = new AbortController();
  const note = (noted: ReturnType<typeof noteOfOutcome>): void => {
    if (noted !== null) events.note(noted.runId, noted.note);
  };
  const context = {
    ...{ clock, log, secrets, hurry: stopping.signal, tracer },
    ...{ outbox: events.outbox, undelivered: events.undelivered },
    onOutcome: (outcome: Outcome) => {
      note(noteOfOutcome(outcome, clock.now()));
      onOutcome(outcome);
    },
    onPostponed: (postponed: Postponed) => note(noteOfPostponed(postponed, clock.now())),
  };
  const { notifier, warnings } = await loggedNotifier(config.notifiers, context);
  logWarnings(log, warnings);
  return {
    notify: (occurrence, trace) => notifier.notify(occurrence, trace),
    undelivered: (notifierId) => notifier.undelivered(notifierId),
    redeliver: (notifierId, signal) => notifier.redeliver(notifierId, signal),
    prepare: async (next) => {
      const opened = await openNotifiers(next.config.notifiers, { clock, log, secrets: next.secrets });
      return { replace: () => notifier.replace(opened.notifiers), warnings: opened.warnings };
    },
    close: async () => {
      stopping.abort();
      await notifier.close(deliveryGraceMs);
    },
  };
}

// Whoever stops a daemon waits for it, and a collector that is away is waited for in vain.
const lastSpansMs = 5_000;

/**
 * What the configuration says of tracing. Closing sends what is recorded, for five seconds or
 * `shutdown_timeout`, whichever is shorter. Throws as `openTracing`.
 */
export async function openConfiguredTracing(
  foundation: Foundation,
): Promise<Tracing & { close: () => Promise<void> }> {
  const { config } = foundation;
  const version = config.tracing === null ? '' : productVersion();
  const tracing = await openTracing(config.tracing, { ...foundation, version });
  const withinMs = Math.min(config.server.http.shutdownTimeoutMs, lastSpansMs);
  return { ...tracing, close: () => tracing.close(withinMs) };
}

/** What is done when the oldest undelivered events of a notifier had to go. */
export function droppedEvents(
  { log }: Pick<Foundation, 'log'>,
  metrics: Pick<ProcessMetrics, 'undeliveredDropped'> | null,
): (notifierId: string, count: number) => void {
  return (notifierId, count) => {
    log.warn(
      { notifier: notifierId, count },
      'the oldest undelivered events are dropped: there are too many',
    );
    metrics?.undeliveredDropped(notifierId, count);
  };
}

/** A function that does the work at its first call; further calls wait for the same work. */
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
