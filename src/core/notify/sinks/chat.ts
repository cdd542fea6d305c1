import { WaybillError } from '../../lib/errors.ts';
import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { accepted, parseBaseUrl, parseWebhookUrl, resolveDuration } from '../../lib/settings/values.ts';
import type { ChatKind } from '../message/chat-formats.ts';
import { consoleUrlSetting, templateSetting } from '../message/message-settings.ts';
import { type SinkContext, type SinkKind, timeoutSetting } from '../sink.ts';
import { refusedLiteral } from './guarded-lookup.ts';

interface ChatDocument<Kind extends string> {
  kind: Kind;
  url_env: string;
  title?: string | undefined;
  console_url?: string | undefined;
  timeout: string;
}

interface ChatSettings<Kind extends string> {
  kind: Kind;
  /** The variable with the URL of the incoming webhook. Its path is a credential. */
  urlEnv: string;
  title: string | null;
  consoleUrl: string | null;
  timeoutMs: number;
}

export const slackKind = chatKind('slack', 'A message in a channel of Slack.');
export const discordKind = chatKind('discord', 'A message in a channel of Discord.');

function chatKind<const Kind extends ChatKind>(
  kind: Kind,
  summary: string,
): SinkKind<Kind, ChatDocument<Kind>, ChatSettings<Kind>> {
  return {
    kind,
    summary,
    settings: (kinds) => settings(kinds, kind),
    fault: () => null,
    resolve: ({ url_env, title, console_url, timeout }) => ({
      kind,
      urlEnv: url_env,
      title: title ?? null,
      consoleUrl: console_url === undefined ? null : accepted(parseBaseUrl(console_url)),
      timeoutMs: resolveDuration(timeout),
    }),
    secrets: ({ urlEnv }) => [urlEnv],
    open: async ({ urlEnv, timeoutMs, ...options }, context) => {
      const url = urlOf(urlEnv, context);
      const { chatBody, chatFormats } = await import('../message/chat-formats.ts');
      const { postSink } = await import('./webhook-sender.ts');
      return postSink({
        ...{ url, timeoutMs, clock: context.clock, allowAddresses: [] },
        // Chats show messages in the order in which they arrive, and limit their rate.
        concurrency: 1,
        compose: (event) => ({ body: chatBody(event, chatFormats[kind], options) }),
      });
    },
    reach: async ({ urlEnv }, context) => {
      const { reachWebhook } = await import('./webhook-sender.ts');
      return reachWebhook({ url: urlOf(urlEnv, context), allowAddresses: [] }, context.signal);
    },
  };
}

function settings(kinds: Kinds, kind: ChatKind): Settings {
  return {
    url_env: kinds
      .environmentName()
      .required()
      .description(
        'Environment variable, or file in secrets.directory, that holds the URL of the incoming webhook.',
      )
      .example(`WAYBILL_${kind.toUpperCase()}_URL`),
    title: templateSetting(kinds, 'First line of the message'),
    console_url: consoleUrlSetting(kinds),
    timeout: timeoutSetting(kinds),
  };
}

/** The URL of the incoming webhook. Throws `secrets_invalid`, which never shows the URL. */
function urlOf(name: string, { secrets, neededBy }: SinkContext): string {
  const verdict = parseWebhookUrl(secrets.require(name, neededBy).trim());
  const refuse = (reason: string): WaybillError =>
    new WaybillError(
      'secrets_invalid',
      `the secret ${name}, needed by ${neededBy}, is not usable: ${reason}`,
      {
        hint: 'set it to the URL that the chat service shows for the incoming webhook',
      },
    );
  if (!verdict.ok) throw refuse(verdict.reason);
  const refused = refusedLiteral(new URL(verdict.value).hostname, []);
  if (refused !== null) throw refuse(`its host is ${refused}`);
  return verdict.value;
}
