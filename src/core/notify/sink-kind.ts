import type { Clock } from '../clock.ts';
import type { Finding } from '../finding.ts';
import type { Log } from '../log.ts';
import type { Secrets } from '../secrets.ts';
import type { Kinds, Settings } from '../settings/declare.ts';
import type { PathBase } from '../settings/values.ts';
import type { Sink } from './sink.ts';

/**
 * Everything that the rest of the program knows about one kind of notifier: declared in its file in `sinks/`,
 * and listed in `sink-kinds.ts`. Declaring loads nothing that sends: `open` does, when it is called. Except
 * for `open`, all members are pure.
 *
 * `Document` is what belongs to the kind in the configuration file, after the schema accepted it; `Settings`
 * is the same with units converted and paths absolute.
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
  /** What is wrong with the settings taken together; null if nothing is. */
  fault(document: Document): { reason: string; expected: string } | null;
  resolve(document: Document, base: PathBase): Resolved;
  /** Names of the environment variables that opening the sink needs. */
  secrets(settings: Resolved): string[];
  /** Loads the sink; nothing is connected to yet. Throws `secrets_invalid`. */
  open(settings: Resolved, context: SinkContext): Promise<Sink>;
  /**
   * Whether its events would arrive, as far as can be told without sending one and without leaving anything
   * behind: returns what was found, as half a sentence. Throws `secrets_invalid`, and
   * `unreachable` with what to do.
   */
  reach(settings: Resolved, context: SinkContext & { signal: AbortSignal }): Promise<string>;
}

export interface SinkContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** The notifier, for messages: `notifier "hook"`. */
  neededBy: string;
  /** Reports something that works and should not stay as it is. */
  warn: (warning: Finding) => void;
}

/** The setting `timeout` of sinks that send over a network. */
export function timeoutSetting({ duration }: Kinds): Settings[string] {
  return duration({ atLeast: '100ms', atMost: '60s' })
    .default('5s')
    .description('Longest time that one try may take; there are up to four.');
}
