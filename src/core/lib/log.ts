import { escapeRegExp } from './text.ts';

/** The levels that the core logs at. */
export type LineLevel = 'debug' | 'info' | 'warn' | 'error';

/** The logger that the core expects. A `Logger` from pino can be used as it is. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  /** Reports whether lines at this level are shown. If this is missing, they may or may not be. */
  isLevelEnabled?(level: 'debug'): boolean;
}

const nothing = (): void => undefined;
export const silentLog: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing };

/** The log levels, from the most verbose to the least, under the names that pino uses. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Which HTTP requests to log. */
export const requestLoggings = ['all', 'errors', 'none'] as const;
export type RequestLogging = (typeof requestLoggings)[number];

export interface LogSettings {
  level: LogLevel;
  requests: RequestLogging;
}

/**
 * Decides which lines a long-running program logs. The settings can change at any time, so read them for each
 * line.
 */
export interface LogControl {
  readonly requests: RequestLogging;
  shows(level: LogLevel): boolean;
  set(settings: LogSettings): void;
}

/**
 * Starts at level info, and logs all requests. `verbose` is a command-line flag, so whatever the settings say
 * later, the level is at least debug. `onLevel` is called when the level may have changed.
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

/** Hides secrets that we know in text that is logged or shown, including the errors of libraries. */
export interface Redaction {
  /** Adds secrets to hide. Anything with fewer than six characters is ignored. */
  add(values: Iterable<string>): void;
  /** Replaces each secret with `[secret]`. */
  clean(text: string): string;
}

// Anything shorter could be an ordinary word, and no useful secret is that short.
const minSecretChars = 6;

/** Matches a signed JWT. ID tokens and access tokens come from outside, so we cannot know them beforehand. */
const signedJwt = /\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*/g;

/**
 * Recognizes all signed JWTs, and each secret as it is, or escaped in JSON or in a URL. If a secret is a URL,
 * its password is recognized as well.
 */
export function newRedaction(): Redaction {
  const known = new Set<string>();
  let pattern: RegExp | null = null;
  return {
    add(values) {
      for (const value of values)
        for (const form of formsOf(value)) if (form.length >= minSecretChars) known.add(form);
      // The longest ones go first, because a secret may contain another one.
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
