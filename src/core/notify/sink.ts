import type { Clock } from '../lib/clock.ts';
import type { Finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import { baseUrl, choice, duration, id, list, map, text } from '../lib/settings/kinds.ts';
import type { DocumentOf, Refusal, ResolvedBy, Setting, Settings } from '../lib/settings/setting.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import { type Event, subscribableTypes } from './event.ts';
import { maxTemplateChars, parseTemplate } from './message.ts';

/** A destination for events. Each kind has a file in `sinks/`. */
export interface Sink {
  /** The number of concurrent attempts. If greater than one, events may arrive out of order. */
  readonly concurrency: number;
  /** The timeout for one attempt, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Makes one attempt. Failures are returned, never thrown, and contain no secrets. `trace` is the delivery's
   * span, to be passed on to the receiver.
   */
  send(event: Event, signal: AbortSignal, trace?: TraceContext): Promise<Attempted>;
  close(): Promise<void>;
}

export type Attempted = { ok: true } | Refused;

export interface Refused {
  ok: false;
  /** A clause for messages, such as `the receiver answered 503`. */
  reason: string;
  /** Whether retrying may help. */
  retry: boolean;
  /** The delay requested by the receiver. */
  retryAfterMs?: number;
  /** Whether the receiver permanently refuses further events. */
  gone?: boolean;
}

/**
 * Declares a kind of notifier. Each file in `sinks/` has one, and `sink-kinds.ts` lists them. Only `open` and
 * `reach` load the code that sends events.
 */
export interface SinkKind<S extends Setting> {
  /** The settings for this kind of notifier, created by `notifierSettings`. */
  readonly settings: S;
  /** Returns the names of the environment variables needed to open the sink. */
  secrets(config: ResolvedBy<S>): string[];
  /** Loads the sink without connecting. Throws `secrets_invalid`. */
  open(config: ResolvedBy<S>, context: SinkContext): Promise<Sink>;
  /**
   * Checks whether events would arrive, without sending one or leaving anything behind. Returns the result as
   * a clause for messages. Throws `secrets_invalid`, and `unreachable` with a hint.
   */
  reach(config: ResolvedBy<S>, context: SinkContext & { signal: AbortSignal }): Promise<string>;
}

export interface SinkContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** The notifier's name in messages: `notifier "hook"`. */
  neededBy: string;
  /** Receives warnings about settings that work but should be changed. */
  warn: (warning: Finding) => void;
}

export function sinkKind<S extends Setting>(kind: SinkKind<S>): SinkKind<S> {
  return kind;
}

/** Settings shared by all notifiers. */
const common = {
  id: id().required().description('Name of the notifier, for logs and warnings.').example('hook'),
  events: list(choice(...subscribableTypes), {
    min: 1,
    expected: `a list of ${subscribableTypes.join(', ')}, at least one`,
  })
    .default(['bundle.published'])
    .description('Events that the notifier receives.'),
  pipelines: list(id(), { min: 1, expected: 'a list of pipeline ids, at least one' }).description(
    'Sends only events of these pipelines. Default: all pipelines.',
  ),
};

/** Returns the settings for one kind: the common ones, `kind` with its summary, and `own`. */
export function notifierSettings<const Kind extends string, Own extends Settings>(
  name: Kind,
  summary: string,
  own: Own,
  check?: (document: DocumentOf<Own>) => Refusal | null,
) {
  const kind = choice(name).required().description(summary);
  return map({ ...common, kind, ...own }, { check: check as never });
}

/** The `timeout` setting for sinks that send over a network. */
export const timeoutSetting = duration({ atLeast: '100ms', atMost: '60s' })
  .default('5s')
  .description('Time limit for one attempt. An event gets up to four attempts.');

/** Returns a template setting. Its description starts with `what`. */
export function templateSetting(what: string) {
  return text(
    `one line of at most ${maxTemplateChars} characters, with fields such as {{bundle}}`,
    'template',
    parseTemplate,
  )
    .description(
      `${what}: a template with the fields of docs/notifications.md. Without it, a sentence with the outcome, the bundle and the destination.`,
    )
    .example('{{pipeline}}: {{bundle}} {{outcome}}');
}

/** The `console_url` setting for notifiers that people read. */
export const consoleUrlSetting = baseUrl()
  .description(
    'URL of the daemon as browsers open it, with its base path. Messages then link to the run or pipeline in the console.',
  )
  .example('https://publish.example.org/');
