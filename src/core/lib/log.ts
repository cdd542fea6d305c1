/** The levels of lines that the core writes. */
export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** What the core needs of a logger; pino's `Logger` is one as it stands. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Whether lines of the level are shown at all; left out: they may be. */
  isLevelEnabled?(level: 'debug'): boolean;
}

const nothing = (): void => undefined;
export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };
