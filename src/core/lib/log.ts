import { escapeRegExp } from './text.ts';

/** The levels of lines that the core writes. */
export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** The logger that the core needs. A pino `Logger` conforms without an adapter. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Whether lines of the level are shown; absent: unknown. */
  isLevelEnabled?(level: 'debug'): boolean;
}

const nothing = (): void => undefined;
export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };

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
 * Which lines the log of a long-running program shows. The settings may change while the program runs, so
 * callers read them for each line.
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
 * Starts with level info and all requests. With `verbose`, later settings cannot raise the level above
 * debug: the flag comes from a person who started the program by hand. `onLevel` is called whenever the
 * level may have changed.
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

/** Removes known secrets from text that is logged or shown, including errors of libraries. */
export interface Redaction {
  /** Values shorter than six characters are ignored. */
  add(values: Iterable<string>): void;
  /** The text with every known secret replaced by `[secret]`. */
  clean(text: string): string;
}

// Shorter values would blank out ordinary words, and no useful secret is that short.
const minSecretChars = 6;

/** A signed JWT. The values of ID tokens and access tokens are not known beforehand. */
const signedJwt = /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g;

/**
 * Recognises every signed JWT, and each value as it is, as it is escaped in JSON and in a URL, and the
 * password of a value that is a URL.
 */
export function newRedaction(): Redaction {
  const known = new Set<string>();
  let pattern: RegExp | null = null;
  return {
    add(values) {
      for (const value of values)
        for (const form of formsOf(value)) if (form.length >= minSecretChars) known.add(form);
      // Longest first: one may contain another.
      const forms = [...known].sort((a, b) => b.length - a.length).map(escapeRegExp);
      pattern = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g');
    },
    clean: (text) => {
      const cleaned = pattern === null ? text : text.replace(pattern, '[secret]');
      return cleaned.includes('eyJ') ? cleaned.replace(signedJwt, '[secret]') : cleaned;
    },
  };
}

function formsOf(value: string): string[] {
  const plain = URL.canParse(value) ? [value, new URL(value).password] : [value];
  const decoded = plain.map((one) => decodeOrKeep(one));
  return [...plain, ...decoded].flatMap((one) => [
    one,
    JSON.stringify(one).slice(1, -1),
    encodeURIComponent(one.toWellFormed()),
  ]);
}

function decodeOrKeep(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
