import { describeFinding, type ErrorRecord } from '../../../core/lib/errors.ts';
import type { RunRecord } from '../../../workers/queue/run-record.ts';
import { momentOf } from '../record-text.ts';

/* Shows errors in the words of the console: a title, sentences, and the next step. */

export interface ErrorView extends Pick<ErrorRecord, 'code' | 'hint' | 'retryable'> {
  /** A short name of the problem, or the first sentence of the message. */
  title: string;
  /** The other sentences of the message; null if there are none. */
  text: string | null;
  /** A command that only lists the files in the way, to copy; null if there is none. */
  command: string | null;
  /** The effect of that command without `--dry-run`, such as `deletes them`; null if there is no command. */
  force: string | null;
  /** Where the destination is; null if the visitor may not see it, or if the error is not about one. */
  place: string | null;
  findings: string[];
}

/** The short names of frequent problems. */
const titles: Partial<Record<string, string>> = { unmanaged_content: 'Files in the way' };

/** The end of a hint about a flag of the command line, which a page replaces with a command to copy. */
const forceClause = /; --force (deletes [^,]+), and --force --dry-run lists it first$/;

interface About {
  destinationId?: string;
  place?: string | null;
  command?: string | null;
}

export function errorView(
  { code, message, hint, retryable, findings }: ErrorRecord,
  { destinationId, place = null, command = null }: About = {},
): ErrorView {
  return {
    ...wordsOf({ code, message }, destinationId),
    ...{ code, retryable, command, place },
    hint: typeof hint === 'string' ? sentencesOf(hint.replace(forceClause, '')).join(' ') : null,
    force: command === null ? null : (forceClause.exec(hint ?? '')?.[1] ?? null),
    findings: findings.map(describeFinding),
  };
}

function wordsOf(
  { code, message }: Pick<ErrorRecord, 'code' | 'message'>,
  destinationId?: string,
): Pick<ErrorView, 'title' | 'text'> {
  const all = sentencesOf(message.replace(/^the destination root: /, ''));
  const short = titles[code];
  const [first = '', ...others] = all;
  const at = destinationId === undefined ? '' : ` at ${destinationId}`;
  const [title, rest] = short === undefined ? [first.replace(/\.$/, ''), others] : [`${short}${at}`, all];
  return { title, text: rest.length === 0 ? null : rest.join(' ') };
}

/** Returns the title of an error. */
export function failureTitle(error: Pick<ErrorRecord, 'code' | 'message'>): string {
  return wordsOf(error).title;
}

/** Splits a message of the core into sentences. */
export function sentencesOf(message: string): string[] {
  return outsideQuotes(plainWords(message), (text) => text.replaceAll('; ', '\n'))
    .split('\n')
    .map((part) => sentence(part.replace(/\.?$/, '.')));
}

/** Starts a message of an error with a capital letter. */
export function sentence(message: string): string {
  return message.charAt(0).toUpperCase() + message.slice(1);
}

/** Puts a message of the core in the words of the console. */
export function plainWords(message: string): string {
  return outsideQuotes(message, (text) =>
    text
      .replace(/planned outputs differ from their records/, 'files differ from the published ones')
      .replace(/\boutput(s?)\b/g, 'file$1')
      .replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (iso) => momentOf(iso).text),
  );
}

/** Changes the text of a message, but no name that it quotes, such as a file. */
function outsideQuotes(message: string, change: (text: string) => string): string {
  return message.replace(/"(?:[^"\\]|\\.)*"|[^"]+/g, (part) => (part.startsWith('"') ? part : change(part)));
}

/**
 * Returns the error of a failed run. If the run itself has none, returns the error of its first failed
 * destination.
 */
export function failureOf(
  run: RunRecord | null,
): { runId: string; code: string; title: string; text: string | null } | null {
  if (run?.status !== 'failed') return null;
  const place = run.destinations.find((one) => one.error !== null);
  const error = run.error ?? place?.error ?? null;
  if (error === null) return null;
  const words = wordsOf(error, run.error === null ? place?.destination_id : undefined);
  return { runId: run.run_id, code: error.code, ...words };
}
