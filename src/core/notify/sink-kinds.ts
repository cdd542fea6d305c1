import type { SubscribableType } from './event.ts';
import type { SinkKind } from './sink.ts';
import { discordKind, slackKind } from './sinks/chat.ts';
import { emailKind } from './sinks/email.ts';
import { fileKind } from './sinks/file.ts';
import { logKind } from './sinks/log.ts';
import { redisKind } from './sinks/redis.ts';
import { webhookKind } from './sinks/webhook.ts';

/** Every kind of notifier, in the order of the reference pages. */
export const sinkKinds = byKind({
  log: logKind,
  file: fileKind,
  webhook: webhookKind,
  redis: redisKind,
  slack: slackKind,
  discord: discordKind,
  email: emailKind,
});

export type SinkKindName = keyof typeof sinkKinds;
type Listed = (typeof sinkKinds)[SinkKindName];

/** The kind's part of the configuration file, with defaults. */
export type SinkDocument = Parameters<Listed['resolve']>[0];
export type SinkSettings = ReturnType<Listed['resolve']>;

export type NotifierConfig = {
  id: string;
  events: SubscribableType[];
  /** Only events of these pipelines; null for all. */
  pipelines: string[] | null;
} & SinkSettings;

/** A kind whose type accepts the settings of all kinds. It must only get its own. */
export type AnySinkKind = SinkKind<SinkKindName, SinkDocument, SinkSettings>;

export const allSinkKinds: readonly AnySinkKind[] = Object.values(sinkKinds);

export function sinkKindOf({ kind }: { kind: SinkKindName }): AnySinkKind {
  return sinkKinds[kind];
}

/** Checks by type that each kind is listed under its own name. */
function byKind<const T extends { [Kind in keyof T]: { readonly kind: Kind } }>(list: T): T {
  return list;
}
