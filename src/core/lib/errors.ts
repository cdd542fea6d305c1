import { type ErrorCode, errorTable } from './error-codes.ts';

interface ErrorDetails {
  /** The next step for the user, as a sentence that follows the message. */
  hint?: string;
  cause?: unknown;
  /** All problems in detail, if there can be several. */
  findings?: readonly Finding[];
  /** How long to wait before a retry, in whole seconds, if known more precisely than from the code. */
  retryAfterSeconds?: number;
  /** Whether a retry may help. The default depends on the code. */
  retryable?: boolean;
}

const brand = Symbol.for('waybill.error');

/**
 * The only error class. It has a code from the closed list, a sentence that names the location, and a hint.
 */
export class WaybillError extends Error {
  /**
   * Checks a brand instead of the class, because the bundled command line and the daemon modules that it
   * loads have separate copies of the class.
   */
  static override [Symbol.hasInstance](thrown: unknown): boolean {
    return thrown instanceof Error && brand in thrown;
  }

  readonly [brand] = true;
  override readonly name = 'WaybillError';
  readonly code: ErrorCode;
  readonly hint: string | undefined;
  readonly findings: readonly Finding[];
  readonly retryAfterSeconds: number | undefined;
  /** Private, so that logged errors do not repeat it. */
  readonly #retryable: boolean | undefined;

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
    this.findings = details.findings ?? [];
    this.retryAfterSeconds = details.retryAfterSeconds;
    this.#retryable = details.retryable;
  }

  get retryable(): boolean {
    return this.#retryable ?? errorTable[this.code].retryable;
  }
}

/** The plain-data form of an error, for records, JSON documents and messages between threads. */
export interface ErrorRecord {
  code: ErrorCode;
  message: string;
  hint: string | null;
  retryable: boolean;
  findings: readonly Finding[];
}

/** Returns a thrown `WaybillError` unchanged, and wraps anything else in an `internal_error`. */
export function asWaybillError(thrown: unknown): WaybillError {
  if (thrown instanceof WaybillError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new WaybillError('internal_error', message, { cause: thrown });
}

export function errorRecord(thrown: unknown): ErrorRecord {
  const error = asWaybillError(thrown);
  return {
    code: error.code,
    message: error.message,
    hint: error.hint ?? null,
    retryable: error.retryable,
    findings: error.findings,
  };
}

export function hasCode(thrown: unknown, code: ErrorCode): boolean {
  return thrown instanceof WaybillError && thrown.code === code;
}

/** A validation result: the problem or warning, its location, and the correct form. */
export interface Finding {
  severity: 'error' | 'warning';
  /** A stable code in snake case. */
  code: string;
  /** A sentence for people. */
  message: string;
  /**
   * The location: a file or archive entry, a JSON Pointer or key path, and a line and column counted from 1.
   * Each is null if unknown.
   */
  file: string | null;
  pointer: string | null;
  line: number | null;
  column: number | null;
}

export function finding(
  severity: Finding['severity'],
  code: string,
  message: string,
  place: Partial<Pick<Finding, 'file' | 'pointer' | 'line' | 'column'>> = {},
): Finding {
  return { severity, code, message, file: null, pointer: null, line: null, column: null, ...place };
}

/** Formats a finding as `file:line:column: message`, like compilers do, omitting parts that are null. */
export function describeFinding({ file, pointer, line, column, message }: Finding): string {
  // The bundle itself is omitted, because the line above or the message names it.
  const position = [file === '.' ? null : file, line, column].filter((part) => part !== null).join(':');
  const place = [position, pointer ?? ''].filter((part) => part !== '').join(' ');
  return place === '' ? message : `${place}: ${message}`;
}

/**
 * Returns the public form of an error, for run records that can be read without a token. Local paths become
 * `<path>`, and `internal_error` keeps only its general description. The log contains the original under the
 * same run id.
 */
export function publicError(error: ErrorRecord): ErrorRecord {
  if (error.code === 'internal_error') {
    return { ...error, message: errorTable.internal_error.about, hint: null, findings: [] };
  }
  return {
    ...error,
    message: withoutPaths(error.message),
    hint: error.hint === null ? null : withoutPaths(error.hint),
    findings: error.findings.map(publicFinding),
  };
}

/** Returns the public form of a finding. */
export function publicFinding(finding: Finding): Finding {
  return {
    ...finding,
    message: withoutPaths(finding.message),
    file: finding.file === null ? null : withoutPaths(finding.file),
  };
}

// A quoted path may contain spaces, while a bare one ends at the first space. A slash inside a word, a URL or
// a relative path does not start a path. Text after an HTTP method is a request path.
const quotedPath = /(["'`])(?:\/|~\/|[A-Za-z]:\\)[^"'`]*\1/g;
const barePath = /(?<![\w:/.~%-]|\b(?:GET|HEAD|POST|PATCH|DELETE) )(?:\/|~\/)[^\s"'`,;:)\]}]+/g;

/** Returns the text with every absolute path replaced by `<path>`. */
export function withoutPaths(text: string): string {
  return text.replaceAll(quotedPath, '$1<path>$1').replaceAll(barePath, '<path>');
}
