import type { Event } from '../event.ts';
import { type Message, messageOf } from './message.ts';
import { fillTemplate } from './template.ts';

/*
 * Bodies of the incoming webhooks of chat services. Values are escaped, so that a bundle's name can neither
 * format the message nor mention anyone. Pure.
 */

export interface ChatOptions {
  /** The template of the first line; null for the default. */
  title: string | null;
  consoleUrl: string | null;
}

export interface ChatFormat {
  /** The maximum length of the text, in UTF-16 code units. */
  maxChars: number;
  escape: (value: string) => string;
  body: (text: string) => object;
}

/** https://docs.slack.dev/messaging/formatting-message-text: longer texts should be avoided. */
const slackFormat: ChatFormat = {
  maxChars: 4_000,
  escape: (value) => value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  // Without these, Slack applies its Markdown and makes links of names and addresses in the values.
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

/** https://discord.com/developers/docs/resources/webhook#execute-webhook rejects longer texts. */
const discordFormat: ChatFormat = {
  maxChars: 2_000,
  escape: (value) => value.replaceAll(/[\\*_~`|<>@#:[\]()+.-]/g, (character) => `\\${character}`),
  body: (content) => ({ content, allowed_mentions: { parse: [] }, flags: suppressEmbeds }),
};

// The first length at which the message fits is used: most messages fit at the first.
const valueLengths = [300, 150, 75, 40, 20];

export const chatFormats = { slack: slackFormat, discord: discordFormat };
export type ChatKind = keyof typeof chatFormats;

/** The JSON text of a message. It fits the limits of the service. */
export function chatBody(event: Event, { maxChars, escape, body }: ChatFormat, options: ChatOptions): string {
  const { title, consoleUrl } = options;
  // A template that repeats a field may not fit at any length.
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
