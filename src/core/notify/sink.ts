import type { Clock } from '../lib/clock.ts';
import type { Finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { Kinds, Settings } from '../lib/settings/declare.ts';
import type { PathBase } from '../lib/settings/values.ts';
import type { TraceContext } from '../tracing/trace-context.ts';
import type { Event } from './event.ts';

/** A destination of events. Each kind has a file in `sinks/`. */
export interface Sink {
  /** The number of concurrent tries. With more than one, events may arrive out of order. */
  readonly concurrency: number;
  /** The timeout of one try, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Tries once. Failures are returned, never thrown, and contain no secrets. `trace` is the span of the
   * delivery, to be passed on to the receiver.
   */
  send(event: Event, signal: AbortSignal, trace?: TraceContext): Promise<Attempted>;
  close(): Promise<void>;
}

export type Attempted = { ok: true } | Refused;

export interface Refused {
  ok: false;
  /** Part of a sentence, such as `the receiver answered 503`. */
  reason: string;
  /** Whether another try may help. */
  retry: boolean;
  /** The pause that the receiver requested. */
  retryAfterMs?: number;
  /** Whether the receiver permanently wants no more events. */
  gone?: boolean;
}

/**
 * The declaration of a kind of notifier. Each file in `sinks/` has one, and `sink-kinds.ts` lists them. Only
 * `open` and `reach` load the code that sends. All other members are pure.
 *
 * `Document` is the kind's part of the configuration file, accepted by the schema. `Resolved` is the same
 * with units converted and paths absolute.
 */
export interface SinkKind<
  Kind extends string,
  Document extends { kind: Kind },
  Resolved extends { kind: Kind },
> {
  /** The value of `kind:` in the configuration. */
  readonly kind: Kind;
  /** One sentence, the description of `kind: <kind>` in the JSON Schema and the reference. */
  readonly summary: string;
  settings(kinds: Kinds): Settings;
  /** An error in the combination of settings; null if there is none. */
  fault(document: Document): { reason: string; expected: string } | null;
  resolve(document: Document, base: PathBase): Resolved;
  /** Names of the environment variables that opening the sink needs. */
  secrets(settings: Resolved): string[];
  /** Loads the sink without connecting. Throws `secrets_invalid`. */
  open(settings: Resolved, context: SinkContext): Promise<Sink>;
  /**
   * Checks whether events would arrive, without sending one or leaving anything behind. Returns the result as
   * part of a sentence. Throws `secrets_invalid`, and `unreachable` with a hint.
   */
  reach(settings: Resolved, context: SinkContext & { signal: AbortSignal }): Promise<string>;
}

export interface SinkContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** The notifier, for messages: `notifier "hook"`. */
  neededBy: string;
  /** Reports a setting that works but should be changed. */
  warn: (warning: Finding) => void;
}

/** The setting `timeout` of sinks that send over a network. */
export function timeoutSetting({ duration }: Kinds): Settings[string] {
  return duration({ atLeast: '100ms', atMost: '60s' })
    .default('5s')
    .description('Time limit for one attempt. An event gets up to four attempts.');
}
