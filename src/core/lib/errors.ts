import { type ErrorCode, errorTable } from './error-codes.ts';

interface ErrorDetails {
  /** The next step for the user, in a sentence that follows the message. */
  hint?: string;
  cause?: unknown;
  /** Details of all problems, if there can be more than one. */
  findings?: readonly Finding[];
  /** How many seconds to wait before trying again, if we know better than the default for the code. */
  retryAfterSeconds?: number;
}

const brand = Symbol.for('waybill.error');

/**
 * The only class of errors that we throw. It has one of the error codes, a message that says where the
 * problem is, and a hint.
 */
export class WaybillError extends Error {
  /**
   * Looks for a brand instead of comparing classes. The bundled command line has its own copy of this class,
   * and so do the daemon modules that it loads.
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

  constructor(code: ErrorCode, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.code = code;
    this.hint = details.hint;
    this.findings = details.findings ?? [];
    this.retryAfterSeconds = details.retryAfterSeconds;
  }

  /** Whether it makes sense to try again. The code decides. */
  get retryable(): boolean {
    return errorTable[this.code].retryable;
  }
}

/** Returns the error with other details. Its details that are not given stay, and it becomes the cause. */
export function withDetails(
  error: WaybillError,
  { message = error.message, ...details }: ErrorDetails & { message?: string },
): WaybillError {
  const { hint, findings, retryAfterSeconds } = error;
  return new WaybillError(error.code, message, {
    hint,
    findings,
    retryAfterSeconds,
    cause: error,
    ...details,
  });
}

/** An error as plain data, for records, JSON documents and messages to other threads. */
export interface ErrorRecord {
  code: ErrorCode;
  message: string;
  hint: string | null;
  retryable: boolean;
  findings: readonly Finding[];
}

/** Returns a `WaybillError` as it is, and turns anything else into an `internal_error`. */
export function asWaybillError(thrown: unknown): WaybillError {
  if (thrown instanceof WaybillError) return thrown;
  return new WaybillError('internal_error', errorMessage(thrown), { cause: thrown });
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

/** Returns the error of a record. */
export function recordedError({ code, message, hint, findings }: ErrorRecord): WaybillError {
  return new WaybillError(code, message, { hint: hint ?? undefined, findings });
}

/** Returns the message of an error, and the text of any other value that was thrown. */
export function errorMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

export function hasCode(thrown: unknown, code: ErrorCode): boolean {
  return thrown instanceof WaybillError && thrown.code === code;
}

/** A problem or warning found during validation, with its location and how to fix it. */
export interface Finding {
  severity: 'error' | 'warning';
  /** A stable code in snake case. */
  code: string;
  /** A sentence that explains the problem. */
  message: string;
  /**
   * The location of the problem: a file or archive entry, a JSON Pointer or key path, and the line and
   * column, starting at 1. All of these are null if unknown.
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

/** The maximum number of findings of an error, because errors are part of records, events and responses. */
const maxFindings = 100;

/** Returns the first findings, errors before warnings. If there are more, the last one says how many. */
export function firstFindings(findings: readonly Finding[]): readonly Finding[] {
  if (findings.length <= maxFindings) return findings;
  const errors = findings.filter(({ severity }) => severity === 'error');
  const others = findings.filter(({ severity }) => severity !== 'error');
  const more = `${findings.length - maxFindings} more things are wrong; correct these first`;
  return [...[...errors, ...others].slice(0, maxFindings), finding('error', 'more_findings', more)];
}

/** Matches a message whose subject is the place of the finding. */
const aboutPlace = /^(?:is|has|must|may|should|does|cannot|leads|lies|changed|signs|was) /;

/**
 * Formats a finding like a compiler would, as `file:line:column: message`. Parts that are null are left out.
 * A message that begins with a verb follows the place without a colon.
 */
export function describeFinding({ file, pointer, line, column, message }: Finding): string {
  // Leave out the bundle itself, because the message or the line above mentions it already.
  const position = [file === '.' ? null : file, line, column].filter((part) => part !== null).join(':');
  const place = [position, pointer ?? ''].filter((part) => part !== '').join(' ');
  if (place === '') return message;
  return aboutPlace.test(message) ? `${place} ${message}` : `${place}: ${message}`;
}

/**
 * Returns an error that is safe to show without a token, in the records of runs. Local paths become `<path>`,
 * and an `internal_error` only has its general description. The original is in the log, under the same run
 * id.
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

/** Returns a finding that is safe to show without a token. */
export function publicFinding(finding: Finding): Finding {
  return {
    ...finding,
    message: withoutPaths(finding.message),
    file: finding.file === null ? null : withoutPaths(finding.file),
  };
}

// A path in quotes can contain spaces; one without quotes ends at the first space. A slash in the middle of a
// word, a URL or a relative path does not begin a path. Anything after an HTTP method is the path of a
// request.
const quotedPath = /(["'`])(?:\/|~\/|[A-Za-z]:\\)[^"'`]*\1/g;
const barePath = /(?<![\w:/.~%-]|\b(?:GET|HEAD|POST|PATCH|DELETE) )(?:\/|~\/)[^\s"'`,;:)\]}]+/g;

/** Replaces each absolute path with `<path>`. */
export function withoutPaths(text: string): string {
  return text.replaceAll(quotedPath, '$1<path>$1').replaceAll(barePath, '<path>');
}
