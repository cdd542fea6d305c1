import type { Verdict } from '../../lib/settings/values.ts';
import { nearest } from '../../lib/text.ts';

/*
 * Templates of one line for messages: text with fields such as `{{bundle}}`. There are no conditions, loops
 * or expressions. Pure.
 */

export const fieldNames = [
  'outcome',
  'pipeline',
  'destination',
  'bundle',
  'release',
  'channel',
  'code',
  'cause',
  'next',
  'run',
  'event',
] as const;

export type FieldName = (typeof fieldNames)[number];
/** A field that an event does not have is empty. */
export type Fields = Record<FieldName, string>;

export const maxTemplateChars = 500;

const field = /\{\{ *([^{}]*?) *\}\}/g;

export function parseTemplate(text: string): Verdict<string> {
  if (text.length > maxTemplateChars)
    return { ok: false, reason: `it has more than ${maxTemplateChars} characters` };
  for (const [, name = ''] of text.matchAll(field)) {
    if ((fieldNames as readonly string[]).includes(name)) continue;
    const guess = nearest(name, fieldNames);
    const hint = guess === undefined ? `the fields are ${fieldNames.join(', ')}` : `did you mean "${guess}"?`;
    return { ok: false, reason: `it has the unknown field "${name.slice(0, 64)}"; ${hint}` };
  }
  return /\{\{|\}\}/.test(text.replaceAll(field, ''))
    ? { ok: false, reason: 'it has "{{" or "}}" outside of a field' }
    : { ok: true, value: text };
}

/** Replaces the fields of an accepted template. Only the values are escaped. */
export function fillTemplate(template: string, fields: Fields, escape: (value: string) => string): string {
  return template.replaceAll(field, (_, name: FieldName) => escape(fields[name])).trim();
}
