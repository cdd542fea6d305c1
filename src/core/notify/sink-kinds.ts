import type { SubscribableType } from './event.ts';
import type { SinkKind } from './sink-kind.ts';
import { fileKind } from './sinks/file.ts';
import { logKind } from './sinks/log.ts';
import { redisKind } from './sinks/redis.ts';
import { webhookKind } from './sinks/webhook.ts';

/** Every kind of notifier, in the order of the reference: the only place that lists them. */
export const sinkKinds = byKind({
  log: logKind,
  file: fileKind,
  webhook: webhookKind,
  redis: redisKind,
});

export type SinkKindName = keyof typeof sinkKinds;
type Listed = (typeof sinkKinds)[SinkKindName];

/** What belongs to the kind in the configuration file, with its defaults. */
export type SinkDocument = Parameters<Listed['resolve']>[0];
export type SinkSettings = ReturnType<Listed['resolve']>;

export type NotifierConfig = {
  id: string;
  events: SubscribableType[];
  /** Only what is about these; null: all of them. */
  pipelines: string[] | null;
} & SinkSettings;

/** A kind that takes the settings of all kinds; it is only ever given its own. */
export type AnySinkKind = SinkKind<SinkKindName, SinkDocument, SinkSettings>;

export const allSinkKinds: readonly AnySinkKind[] = Object.values(sinkKinds);

export function sinkKindOf({ kind }: { kind: SinkKindName }): AnySinkKind {
  return sinkKinds[kind];
}

/** Holds each kind to the key that it is listed under. */
function byKind<const T extends { [Kind in keyof T]: { readonly kind: Kind } }>(list: T): T {
  return list;
}
