import { escapeRegExp } from './text.ts';

/** The levels of lines that the core writes. */
export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** The logger that the core needs. A pino `Logger` satisfies it without an adapter. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Returns true if lines of the level are shown. If the method is absent, this is unknown. */
  isLevelEnabled?(level: 'debug'): boolean;
}

const nothing = (): void => undefined;
export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** Log levels, most verbose first, with pino's names. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Which requests are logged. */
export const requestLoggings = ['all', 'errors', 'none'] as const;
export type RequestLogging = (typeof requestLoggings)[number];

export interface LogSettings {
  level: LogLevel;
  requests: RequestLogging;
}

/**
 * Controls which lines the log of a long-running program shows. The settings may change while the program
 * runs, so callers read them for each line.
 */
export interface LogControl {
  /** Which requests are currently logged. */
  readonly requests: RequestLogging;
  /** Returns true if lines of the level are shown. */
  shows(level: LogLevel): boolean;
  /** Applies these settings from now on. */
  set(settings: LogSettings): void;
}

/**
 * Starts with level info and logs all requests. With `verbose`, later settings cannot raise the level above
 * debug, because the flag was set by a user who started the program manually. `onLevel` is called whenever
 * the level may have changed.
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

/** Removes known secrets from text that is logged or shown, including library errors. */
export interface Redaction {
  /** Values shorter than six characters are ignored. */
  add(values: Iterable<string>): void;
  /** Returns the text with every known secret replaced by `[secret]`. */
  clean(text: string): string;
}

// Shorter values would blank out ordinary words, and no useful secret is that short.
const minSecretChars = 6;

/** Matches a signed JWT. The values of ID tokens and access tokens are not known in advance. */
const signedJwt = /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g;

/**
 * Recognizes every signed JWT, and each value as is, escaped in JSON, and escaped in a URL. If a value is a
 * URL, its password is also recognized.
 */
export function newRedaction(): Redaction {
  const known = new Set<string>();
  let pattern: RegExp | null = null;
  return {
    add(values) {
      for (const value of values)
        for (const form of formsOf(value)) if (form.length >= minSecretChars) known.add(form);
      // Replace the longest first, because one may contain another.
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
