import { acts } from '../audit/record.ts';
import type { Clock } from '../lib/clock.ts';
import type { Finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import { baseUrl, choice, duration, id, list, map, text } from '../lib/settings/kinds.ts';
import type { DocumentOf, ResolvedBy, Setting, Settings, ValueRefusal } from '../lib/settings/setting.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import { type Event, subscribableTypes } from './event.ts';
import { maxTemplateChars, parseTemplate } from './message.ts';

/** Somewhere to send events. There is a file in `sinks/` for each kind. */
export interface Sink {
  /** How many attempts can run at a time. With more than one, events may arrive in a different order. */
  readonly concurrency: number;
  /** How long an attempt can take, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Makes a single attempt. A failure is returned and never thrown, and does not contain secrets. `trace` is
   * the span of the delivery, for the receiver to continue.
   */
  send(event: Event, signal: AbortSignal, trace?: TraceContext): Promise<SendResult>;
  close(): Promise<void>;
}

export type SendResult = { ok: true } | SinkRefusal;

export interface SinkRefusal {
  ok: false;
  /** A clause for use in messages, such as `the receiver answered 503`. */
  reason: string;
  /** Whether it makes sense to try again. */
  retry: boolean;
  /** How long the receiver wants us to wait, in milliseconds. */
  retryAfterMs?: number;
  /** Whether the receiver has said that it never wants any more events. */
  gone?: boolean;
}

/**
 * Declares a kind of notifier. Every file in `sinks/` has one, and `sink-kinds.ts` lists them all. The code
 * that sends events is loaded only by `open` and `reach`.
 */
interface SinkKind<S extends Setting> {
  /** The settings of this kind of notifier, from `notifierSettings`. */
  readonly settings: S;
  /** Returns the environment variables that are needed to open the sink. */
  secrets(config: ResolvedBy<S>): string[];
  /** Loads the sink, without connecting to anything. Throws `secrets_invalid`. */
  open(config: ResolvedBy<S>, context: SinkContext): Promise<Sink>;
  /**
   * Finds out whether events would arrive, without sending any or leaving anything behind. Returns a clause
   * for use in messages. Throws `secrets_invalid`, or `unreachable` with a hint.
   */
  reach(config: ResolvedBy<S>, context: SinkContext & { signal: AbortSignal }): Promise<string>;
}

export interface SinkContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** The notifier as it appears in messages: `notifier "hook"`. */
  neededBy: string;
  /** Called with warnings about settings that work but are not a good idea. */
  warn: (warning: Finding) => void;
}

export function sinkKind<S extends Setting>(kind: SinkKind<S>): SinkKind<S> {
  return kind;
}

/** Settings that every notifier has. */
const common = {
  id: id().required().description('Name of the notifier, for logs and warnings.').example('hook'),
  events: list(choice(...subscribableTypes), {
    min: 1,
    expected: `a list of ${subscribableTypes.join(', ')}, at least one`,
  })
    .default(['bundle.published'])
    .description('Events that the notifier receives.'),
  acts: list(choice(...acts), { min: 1, expected: 'a list of acts of docs/audit.md, at least one' })
    .description('Sends only audit records of these acts. Default: all acts in docs/audit.md.')
    .example(['login', 'release.rollback']),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' }).description(
    'Sends only events of these pipelines. Default: all.',
  ),
};

/** Returns the settings of a kind of notifier: those that all have, `kind` with its summary, and `own`. */
export function notifierSettings<const Kind extends string, Own extends Settings>(
  name: Kind,
  summary: string,
  own: Own,
  check?: (document: DocumentOf<Own>) => ValueRefusal | null,
) {
  const kind = choice(name).required().description(summary);
  return map({ ...common, kind, ...own }, { check: check as never });
}

export const timeoutSetting = duration({ atLeast: '100ms', atMost: '60s' })
  .default('5s')
  .description('Time limit for one attempt. An event gets up to four.');

/** Returns the setting for a template. `what` is how its description starts. */
export function templateSetting(what: string) {
  return text(
    `one line of at most ${maxTemplateChars} characters, with fields such as {{bundle}}`,
    'template',
    parseTemplate,
  )
    .description(
      `${what}, with the fields of docs/notifications.md. Default: a sentence with the outcome, the bundle and the destination.`,
    )
    .example('{{pipeline}}: {{bundle}} {{outcome}}');
}

/** The `console_url` setting of notifiers whose messages are read by people. */
export const consoleUrlSetting = baseUrl()
  .description('URL of the daemon in browsers, with its base path. Messages then link to the console.')
  .example('https://publish.example.org/');
