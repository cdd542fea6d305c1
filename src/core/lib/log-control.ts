/** Levels of the log, the most talkative first; their names are pino's. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Which requests have a line in the log. */
export const requestLoggings = ['all', 'errors', 'none'] as const;
export type RequestLogging = (typeof requestLoggings)[number];

export interface LogSettings {
  level: LogLevel;
  requests: RequestLogging;
}

/**
 * What the log of a long-running program shows. It may change while the program runs, so whoever depends on
 * it asks each time.
 */
export interface LogControl {
  /** Which requests have a line. */
  readonly requests: RequestLogging;
  /** Whether lines of the level are shown. */
  shows(level: LogLevel): boolean;
  /** From now on these settings hold. */
  set(settings: LogSettings): void;
}

/**
 * Begins with level info and all requests. With `verbose` the level is debug at least, whatever is set later:
 * whoever started the program by hand asked for it. `onLevel` is called whenever the level may have changed.
 */
export function logControl({
  verbose = false,
  onLevel = () => undefined,
}: { verbose?: boolean; onLevel?: (level: LogLevel) => void } = {}): LogControl {
  let current: LogSettings = { level: 'info', requests: 'all' };
  const set = ({ level, requests }: LogSettings): void => {
    current = { level: verbose && rank(level) > rank('debug') ? 'debug' : level, requests };
    onLevel(current.level);
  };
  set(current);
  return {
    get requests() {
      return current.requests;
    },
    shows: (level) => rank(level) >= rank(current.level),
    set,
  };
}

const rank = (level: LogLevel): number => logLevels.indexOf(level);
