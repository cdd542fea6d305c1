import type { JsonValue } from './manifest-json.ts';

/** The origin of a bundle, as stated by its producer. It is only shown; no decision depends on it. */
export interface Revision {
  message: string | null;
  /** The commit in version control. */
  commit: string | null;
  branch: string | null;
  author: string | null;
}

/** In characters. */
export const maxMessageChars = 500;
const maxNameChars = 200;

/**
 * The revision in the metadata of a manifest: the keys `message`, `commit`, `branch` and `author`. Any
 * client with upload rights can write them. Texts are therefore cut, control characters become spaces, and
 * credentials in URLs are removed. null if all keys are missing. Pure.
 */
export function revisionOf(metadata: JsonValue | undefined): Revision | null {
  if (typeof metadata !== 'object' || metadata === null || Array.isArray(metadata)) return null;
  const { message, commit, branch, author } = metadata;
  const revision = {
    message: cleaned(message, maxMessageChars),
    commit: cleaned(commit, maxNameChars),
    branch: cleaned(branch, maxNameChars),
    author: cleaned(author, maxNameChars),
  };
  return Object.values(revision).every((value) => value === null) ? null : revision;
}

/** Control characters and those that change the text direction. */
const notText = /[\p{Cc}\p{Zl}\p{Zp}\u{202a}-\u{202e}\u{2066}-\u{2069}]+/gu;

function cleaned(value: JsonValue | undefined, maxChars: number): string | null {
  if (typeof value !== 'string') return null;
  // Far beyond the limit, so that a long text costs no time.
  const text = value
    .slice(0, 4 * maxChars)
    .replace(notText, ' ')
    .replace(/(?<=:\/\/)[^/\s@]+@/g, '')
    .trim();
  const chars = Array.from(text);
  if (chars.length > maxChars) return `${chars.slice(0, maxChars - 1).join('')}…`;
  return text === '' ? null : text;
}
