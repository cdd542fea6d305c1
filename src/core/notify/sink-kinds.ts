import type { Clock } from '../lib/clock.ts';
import type { Finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import { variants } from '../lib/settings/kinds.ts';
import type { ResolvedBy } from '../lib/settings/setting.ts';
import type { Sink, SinkContext } from './sink.ts';
import { discordKind, slackKind } from './sinks/chat.ts';
import { emailKind } from './sinks/email.ts';
import { fileKind } from './sinks/file.ts';
import { logKind } from './sinks/log-sink.ts';
import { redisKind } from './sinks/redis.ts';
import { webhookKind } from './sinks/webhook.ts';

/** All kinds of notifiers. The reference pages list them in this order. */
const sinkKinds = {
  log: logKind,
  file: fileKind,
  webhook: webhookKind,
  redis: redisKind,
  slack: slackKind,
  discord: discordKind,
  email: emailKind,
};

/** An entry in `notifiers`. */
export const notifier = variants('kind', 'a notifier such as {id: log, kind: log}', {
  log: logKind.settings,
  file: fileKind.settings,
  webhook: webhookKind.settings,
  redis: redisKind.settings,
  slack: slackKind.settings,
  discord: discordKind.settings,
  email: emailKind.settings,
});

export type NotifierConfig = ResolvedBy<typeof notifier>;

export interface OpenNotifier {
  config: NotifierConfig;
  sink: Sink;
}

/**
 * A kind of notifier, typed so that it accepts the configuration of any kind. Only pass it one of the
 * matching kind.
 */
interface AnySinkKind {
  secrets(config: NotifierConfig): string[];
  open(config: NotifierConfig, context: SinkContext): Promise<Sink>;
  reach(config: NotifierConfig, context: SinkContext & { signal: AbortSignal }): Promise<string>;
}

export function sinkKindOf({ kind }: Pick<NotifierConfig, 'kind'>): AnySinkKind {
  return sinkKinds[kind];
}

/**
 * Opens the sinks of these notifiers, without connecting to anything. The code of a sink is only loaded if it
 * is used, because most runs do not need any. Throws `secrets_invalid` if a secret is missing or malformed.
 */
export async function openNotifiers(
  configs: readonly NotifierConfig[],
  context: { secrets: Secrets; log: Log; clock: Clock },
): Promise<{ notifiers: OpenNotifier[]; warnings: Finding[] }> {
  const warnings: Finding[] = [];
  const warn = (warning: Finding): void => void warnings.push(warning);
  const notifiers: OpenNotifier[] = [];
  for (const config of configs) {
    const neededBy = `notifier "${config.id}"`;
    notifiers.push({ config, sink: await sinkKindOf(config).open(config, { ...context, neededBy, warn }) });
  }
  return { notifiers, warnings };
}
