import type { Instant } from '../lib/instant.ts';

/** A verdict on one field: the value it means, or why it means none. */
export type FieldVerdict<T> = { ok: true; value: T } | { ok: false; reason: string };

const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const mediaType = new RegExp(
  `^${token}/${token}(?:[ \\t]*;[ \\t]*${token}=(?:${token}|"(?:[^"\\\\\\x00-\\x1f\\x7f]|\\\\[\\x20-\\x7e])*"))*$`,
);
const kindForm = /^[a-z][a-z0-9_]{0,31}$/;
const maxMediaTypeLength = 255;

/** RFC 9110: a type, a subtype and parameters. Pure. */
export function parseMediaType(text: string): FieldVerdict<string> {
  if (text.length > maxMediaTypeLength) return refuse(`is longer than ${maxMediaTypeLength} characters`);
  return mediaType.test(text)
    ? { ok: true, value: text }
    : refuse('is not a media type, like application/json');
}

export function parseKind(text: string): FieldVerdict<string> {
  if (kindForm.test(text)) return { ok: true, value: text };
  return refuse('is not a kind: a lower-case letter, then up to 31 lower-case letters, digits or "_"');
}

/** `20261120T010203Z`. */
export function compactTimestamp(instant: Instant): string {
  return `${instant.slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
}

function refuse(reason: string): { ok: false; reason: string } {
  return { ok: false, reason };
}
