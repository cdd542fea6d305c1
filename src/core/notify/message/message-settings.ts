import type { Kinds, Settings } from '../../lib/settings/declare.ts';
import { maxTemplateChars, parseTemplate } from './template.ts';

/*
 * Settings that the notifiers for people share.
 */

/** A template; `what` is the start of its description. */
export function templateSetting(kinds: Kinds, what: string): Settings[string] {
  return kinds
    .text(
      `one line of at most ${maxTemplateChars} characters, with fields such as {{bundle}}`,
      'template',
      parseTemplate,
    )
    .description(
      `${what}: a template with the fields of docs/notifications.md. Without it, a sentence with the outcome, the bundle and the destination.`,
    )
    .example('{{pipeline}}: {{bundle}} {{outcome}}');
}

export function consoleUrlSetting(kinds: Kinds): Settings[string] {
  return kinds
    .baseUrl()
    .description(
      'URL of the daemon as browsers open it, with its base path. Messages then link to the run or pipeline in the console.',
    )
    .example('https://publish.example.org/');
}
