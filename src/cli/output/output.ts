import { isatty } from 'node:tty';
import pc from 'picocolors';
import { describeFinding, type ErrorRecord, type Finding, type WaybillError } from '../../core/lib/errors.ts';
import { jsonDocument } from '../../core/lib/json-document.ts';
import { type Log, silentLog } from '../../core/lib/log.ts';
import { formatDuration } from '../../core/lib/settings/sizes-and-durations.ts';
import { hangingIndent, widthOf, wrapLines } from './terminal.ts';

/**
 * Prints the output of a command. Data goes to stdout and everything else to stderr. Colors are only used on
 * terminals.
 */
export interface Output {
  readonly isJson: boolean;
  readonly style: Style;
  /**
   * Prints a line, wrapped if there is a terminal. Control characters and line breaks are escaped, because
   * names in the line could contain anything.
   */
  readonly data: (line: string) => void;
  readonly warn: (finding: Finding) => void;
  /** Prints what failed, why, and what to do about it, as `printError` does. */
  readonly failure: (label: string, error: Pick<ErrorRecord, 'message' | 'hint'>, indent?: string) => void;
  /** Prints a note to stderr, except with `--format json`. */
  readonly note: (text: string) => void;
  /** Prints a JSON document. Call this only once. */
  readonly json: (kind: string, body: object) => void;
  /**
   * With `--format json`, prints the document. Otherwise, prints its warnings and then calls `print` to print
   * the result as text.
   */
  readonly result: (kind: string, body: object, print: () => void) => void;
  /** Prints a JSON document on a single line, if there can be several. */
  readonly jsonLine: (kind: string, body: object) => void;
  /**
   * The log for the core. With either format, warnings are printed to stderr, for example that a lease could
   * not be renewed or that a call is retried. `log` notifiers use it for events.
   */
  readonly log: Log;
}

export type Style = Pick<typeof pc, 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'>;

export function makeOutput(options: { json: boolean; color: boolean }): Output {
  const out = lineWriter(process.stdout, options.color);
  const err = lineWriter(process.stderr, options.color);
  const warn = (text: string): void => err.line(`${err.style.yellow('warning')}  ${text}`);
  const logged = new Set<string>();
  const warnOf = (finding: Finding): void => {
    // Some warnings of a result have been logged while the command was running.
    if (!options.json && !logged.has(finding.message)) warn(describeFinding(finding));
  };
  return {
    isJson: options.json,
    style: out.style,
    data: out.line,
    warn: warnOf,
    failure(label, { message, hint }, indent = '') {
      out.line(`${indent}${out.style.red(label)}  ${message}`);
      if (hint !== null) out.line(`${indent}${out.style.cyan('next'.padEnd(label.length))}  ${hint}`);
    },
    note(text) {
      if (!options.json) err.line(`note  ${text}`);
    },
    json: (kind, body) => printDocument(kind, body, 2),
    result(kind, body, print) {
      if (options.json) printDocument(kind, body, 2);
      else {
        const { warnings = [] } = body as { warnings?: readonly Finding[] };
        for (const warning of warnings) warnOf(warning);
        print();
      }
    },
    jsonLine: (kind, body) => printDocument(kind, body, 0),
    log: {
      ...silentLog,
      info(fields) {
        if ('event' in fields) err.line(`event  ${JSON.stringify(fields.event)}`);
      },
      warn(fields, message) {
        logged.add(message);
        warn(describeLogged(fields, message));
      },
    },
  };
}

function printDocument(kind: string, body: object, indent: number): void {
  process.stdout.write(`${jsonDocument(kind, body, indent)}\n`);
}

/**
 * Prints an error as a JSON document on a single line, for `--format json`. It goes to stderr, because stdout
 * is only for results.
 */
export function printErrorDocument(error: ErrorRecord): void {
  process.stderr.write(`${jsonDocument('error', { error }, 0)}\n`);
}

/** Prints an error to stderr, with its findings and a hint. */
export function printError(error: WaybillError, options: { color: boolean }): void {
  const { line, style } = lineWriter(process.stderr, options.color);
  line(`${style.red('error')}  ${error.message}`);
  const isWarning = ({ severity }: Finding): boolean => severity === 'warning';
  for (const finding of error.findings)
    if (!isWarning(finding) && !isInMessage(error.message, finding))
      line(`       ${describeFinding(finding)}`);
  for (const finding of error.findings.filter(isWarning)) line(`       warning: ${describeFinding(finding)}`);
  if (error.hint !== undefined) line(`${style.cyan('next')}   ${error.hint}`);
}

/** Reports whether the message of an error already includes a finding. It lists all missing secrets. */
function isInMessage(message: string, found: Finding): boolean {
  return found.code === 'secret_missing' || message.includes(describeFinding(found));
}

/** Formats rows in columns as wide as their widest cell, without trailing spaces or empty columns. */
export function columns(rows: readonly (readonly string[])[], indent = ''): string[] {
  const widths: number[] = [];
  const shown = rows.map((row) => row.map((cell) => (widthOf(cell) === 0 ? '' : cell)));
  for (const row of shown)
    row.forEach((cell, index) => (widths[index] = Math.max(widths[index] ?? 0, widthOf(cell))));
  return shown.map((row) =>
    (
      indent +
      row
        .map((cell, index) =>
          index === row.length - 1 ? cell : cell + ' '.repeat((widths[index] ?? 0) - widthOf(cell)),
        )
        .filter((_, index) => widths[index] !== 0)
        .join('  ')
    ).trimEnd(),
  );
}

/** Formats a duration: `0.03 s`, `0.4 s`, `12.0 s` or `3m 5s`. */
export function tookText(ms: number): string {
  return ms < 60_000 ? `${(ms / 1000).toFixed(ms < 95 ? 2 : 1)} s` : formatDuration(ms);
}

function lineWriter(
  stream: NodeJS.WriteStream & { fd: number },
  color: boolean,
): { style: Style; line: (text: string) => void } {
  const { NO_COLOR, TERM } = process.env;
  // According to no-color.org, an empty NO_COLOR does not count.
  const isColoured = color && (NO_COLOR ?? '') === '' && TERM !== 'dumb' && isatty(stream.fd);
  const width = stream.isTTY && stream.columns > 0 ? stream.columns : Infinity;
  return {
    style: pc.createColors(isColoured),
    line: (text) =>
      void stream.write(`${wrapLines(printable(text, isColoured), width, hangingIndent(width))}\n`),
  };
}

/**
 * Matches our own colors, and everything else that a terminal interprets or that changes the direction of
 * text. Names must not be able to move the cursor or look like another line.
 */
const notText = /(\u{1b}\[\d{1,2}m)|[\p{Cc}\p{Zl}\p{Zp}\u{202a}-\u{202e}\u{2066}-\u{2069}]/gu;

function printable(text: string, keepColours: boolean): string {
  return text.replace(notText, (found, colour: string | undefined) =>
    keepColours && colour !== undefined ? found : Array.from(found, escaped).join(''),
  );
}

function escaped(char: string): string {
  const code = char.charCodeAt(0);
  if (code >= 0x20 && code < 0x7f) return char;
  return code < 0x20 ? JSON.stringify(char).slice(1, -1) : `\\u${code.toString(16).padStart(4, '0')}`;
}

function describeLogged(fields: object, message: string): string {
  const { storage, err } = fields as { storage?: unknown; err?: unknown };
  const where = typeof storage === 'string' ? `${storage}: ` : '';
  return `${where}${message}${err instanceof Error ? ` (${err.message})` : ''}`;
}

/* Formats what was decided about a publication. Used by `run`, `publish`, `push` and `runs`. */

/** Returns `+` if it is new, `~` if it has changed, `=` if it has not, and `✗` if it failed. */
export function signOf(action: string, error: object | null, style: Style): string {
  if (error !== null) return style.red('✗');
  if (action === 'skip_same') return style.dim('=');
  return action === 'publish_new' ? style.green('+') : style.yellow('~');
}

/** Reasons that do not need to be printed, because they are obvious from the action and the numbers. */
const usualReasons = ['destination_empty', 'outputs_differ', 'outputs_omitted', 'all_recorded'];

/**
 * Returns the reason for an action. Leaves it out if it is the usual one, or if an error is printed that says
 * the same.
 */
export function reasonText(reason: { code: string; message: string } | null, error: object | null): string {
  return reason === null || error !== null || usualReasons.includes(reason.code) ? '' : reason.message;
}

/** Formats an RFC 3339 time in the local time zone: `2026-11-26 11:33 CET`. */
export function localTime(time: string): string {
  const at = new Date(time);
  const two = (value: number): string => String(value).padStart(2, '0');
  const day = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-');
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())} ${zoneOf(at)}`;
}

/**
 * Returns the short name of the local time zone at this time, such as `CET`. If it has no name, returns
 * `GMT+5:30`.
 */
function zoneOf(at: Date): string {
  const parts = new Intl.DateTimeFormat('en', { timeZoneName: 'short' }).formatToParts(at);
  return parts.find(({ type }) => type === 'timeZoneName')?.value ?? 'UTC';
}
