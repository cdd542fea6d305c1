import { WaybillError } from '../../lib/errors.ts';
import { environmentName } from '../../lib/settings/kinds.ts';
import { parseWebhookUrl } from '../../lib/settings/parse-values.ts';
import type { Event } from '../event.ts';
import { fillTemplate, type Message, messageOf } from '../message.ts';
import {
  consoleUrlSetting,
  notifierSettings,
  type SinkContext,
  sinkKind,
  templateSetting,
  timeoutSetting,
} from '../sink.ts';
import { refusedIpHost } from './guarded-lookup.ts';

/*
 * Sends messages to the incoming webhooks of chat services. All values are escaped, so the name of a bundle
 * cannot add formatting or mention anyone.
 */

export interface ChatOptions {
  /** The template for the first line; null for the default one. */
  title: string | null;
  consoleUrl: string | null;
}

interface ChatFormat {
  /** How long the text can be, in UTF-16 code units. */
  maxChars: number;
  escape: (value: string) => string;
  body: (text: string) => object;
}

/** https://docs.slack.dev/messaging/formatting-message-text advises against longer text. */
const slackFormat: ChatFormat = {
  maxChars: 4_000,
  escape: (value) => value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  // By default, Slack would format the values as Markdown, and turn names and addresses in them into links.
  body: (text) => ({
    text,
    mrkdwn: false,
    parse: 'none',
    link_names: false,
    unfurl_links: false,
    unfurl_media: false,
  }),
};

const suppressEmbeds = 1 << 2;

/** https://discord.com/developers/docs/resources/webhook#execute-webhook refuses longer text. */
const discordFormat: ChatFormat = {
  maxChars: 2_000,
  escape: (value) => value.replaceAll(/[\\*_~`|<>@#:[\]()+.-]/g, (character) => `\\${character}`),
  body: (content) => ({ content, allowed_mentions: { parse: [] }, flags: suppressEmbeds }),
};

// How long each value can be. Try these in order until the message fits. Most fit right away.
const valueLengths = [300, 150, 75, 40, 20];

export const chatFormats = { slack: slackFormat, discord: discordFormat };

/** Returns a message as JSON that is not too large for the service. */
export function chatBody(event: Event, { maxChars, escape, body }: ChatFormat, options: ChatOptions): string {
  const { title, consoleUrl } = options;
  // If a template uses the same field many times, the message may never fit. In that case, use the default
  // one.
  for (const template of title === null ? [null] : [title, null])
    for (const maxValueChars of valueLengths) {
      const text = textOf(messageOf(event, { consoleUrl, maxValueChars }), template, escape);
      if (text.length <= maxChars) return JSON.stringify(body(text));
    }
  return JSON.stringify(body(escape(event.type)));
}

function textOf(message: Message, template: string | null, escape: ChatFormat['escape']): string {
  const { rows, link, fields } = message;
  const title = template === null ? escape(message.title) : fillTemplate(template, fields, escape);
  return [
    title,
    ...rows.map(([label, value]) => `${label}: ${escape(value)}`),
    ...(link === null ? [] : [`<${link}>`]),
  ].join('\n');
}

export const slackKind = chatKind('slack', 'A message in a channel of Slack.');
export const discordKind = chatKind('discord', 'A message in a channel of Discord.');

function chatKind(name: keyof typeof chatFormats, summary: string) {
  const settings = notifierSettings(name, summary, {
    url_env: environmentName()
      .required()
      .description(
        'Environment variable, or file in secrets.directory, that holds the URL of the incoming webhook.',
      )
      .example(`WAYBILL_${name.toUpperCase()}_URL`),
    title: templateSetting('First line of the message'),
    console_url: consoleUrlSetting,
    timeout: timeoutSetting,
  });
  return sinkKind({
    settings,
    secrets: ({ urlEnv }) => [urlEnv],
    open: async ({ urlEnv, timeoutMs, title, consoleUrl }, context) => {
      const url = urlOf(urlEnv, context);
      const { postSink } = await import('./post.ts');
      return postSink({
        url,
        timeoutMs,
        clock: context.clock,
        allowAddresses: [],
        // Chat services show messages in the order they arrive, and have rate limits.
        concurrency: 1,
        compose: (event) => ({ body: chatBody(event, chatFormats[name], { title, consoleUrl }) }),
      });
    },
    reach: async ({ urlEnv }, context) => {
      const { reachWebhook } = await import('./post.ts');
      return reachWebhook({ url: urlOf(urlEnv, context), allowAddresses: [] }, context.signal);
    },
  });
}

/**
 * Returns the URL of the incoming webhook. Throws a `secrets_invalid` error that does not include the URL.
 */
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
  const refused = refusedIpHost(new URL(verdict.value).hostname, []);
  if (refused !== null) throw refuse(`its host is ${refused}`);
  return verdict.value;
}
