import { isUtf8 } from 'node:buffer';

/*
 * Formats names and numbers for messages, and compares names. The name of a file can be any bytes, while a
 * bundle only has names in UTF-8. Object keys can have segments that no directory entry could have.
 */

export const invalidKey = 'is an object key with an empty, "." or ".." segment, which no path names';
export const notUtf8 = 'has a name that is not UTF-8';
export const renameHint = 'rename it, for example with convmv -f latin1 -t utf8 --notest FILE';
export const composeHint = 'rename it, for example with convmv -f utf8 -t utf8 --nfc --notest FILE';

// Characters that JSON does not escape but that would break a line in a terminal or log.
const unescapedControls = /[\u007f-\u009f\u2028\u2029]/gu;

/**
 * Returns a name in a form that can be displayed. Different names are displayed differently: invalid bytes
 * become `\xhh`, and everything else is escaped like a string in JSON. Takes linear time.
 */
export function escapedName(bytes: Uint8Array): string {
  const name = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let text = '';
  for (let at = 0; at < name.byteLength;) {
    const character = name.subarray(at, at + lengthOf(name[at] ?? 0));
    if (isUtf8(character)) text += escapedText(character.toString('utf8'));
    else text += `\\x${name.toString('hex', at, at + 1)}`;
    at += isUtf8(character) ? character.byteLength : 1;
  }
  return text;
}

/**
 * Returns how many bytes there are in a character that starts with this byte. If there are fewer, it is not
 * UTF-8.
 */
function lengthOf(first: number): number {
  if (first < 0xc0) return 1;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

function escapedText(text: string): string {
  return JSON.stringify(text)
    .slice(1, -1)
    .replaceAll(unescapedControls, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/**
 * Matches printable ASCII, where each character is one byte, and lowercasing is all it takes to ignore case.
 * Handling such text separately is several times faster.
 */
export const printableAscii = /^[\x20-\x7e]*$/;

/**
 * Returns a form of a path that ignores case. Two paths have the same form if they are the same file on a
 * case-insensitive file system.
 */
export function foldedPath(path: string): string {
  if (printableAscii.test(path)) return path.toLowerCase();
  return path.normalize('NFC').toLowerCase().toUpperCase().toLowerCase().normalize('NFC');
}

/** Quotes text for messages: escapes it like a string in JSON, and cuts it after `maxUnits` code units. */
export function quoted(text: string, maxUnits = 60): string {
  return JSON.stringify(text.length > maxUnits ? `${text.slice(0, maxUnits)}…` : text);
}

/** Quotes a name for a message. Only a very long one is cut off. */
export function quotedName(name: string): string {
  return quoted(name, 200);
}

/** Formats a count with its noun: `1 run`, `2 runs`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** Converts a name in snake case to camel case. */
export function camelCase(name: string): string {
  return name.replaceAll(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}

/** Returns a regular expression that matches this text and nothing else, with or without the `u` flag. */
export function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}

/** Returns a word for a POSIX shell that stands for this text, in quotes if necessary. */
export function shellQuoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/**
 * Returns the known word that was probably meant, which is the one that takes the fewest edits. An edit
 * inserts, deletes or replaces a letter, or swaps two adjacent ones ("optimal string alignment"). Returns
 * undefined if it takes too many edits for a word of this length. Ignores case, and treats `-` and `_` as the
 * same character.
 */
export function nearest(word: string, known: readonly string[]): string | undefined {
  // Nothing known is anywhere near as long, and the time it takes grows with the square of the length.
  if (word.length > 64) return undefined;
  let best: { name: string; edits: number } | undefined;
  for (const name of known) {
    const edits = distance(plain(word), plain(name));
    if (edits <= Math.max(1, Math.floor(name.length / 3)) && (best === undefined || edits < best.edits))
      best = { name, edits };
  }
  return best?.name;
}

/** The maximum number of names in a suggestion. */
const maxNamed = 20;

/**
 * Returns a hint for a name that does not exist: the most similar name, and the others. `known` must not be
 * empty.
 */
export function suggestion(name: string, known: readonly string[]): string {
  const closest = nearest(name, known);
  const more = known.length > maxNamed ? `, and ${known.length - maxNamed} more` : '';
  const all = `known: ${known.slice(0, maxNamed).join(', ')}${more}`;
  if (closest === undefined) return all;
  return known.length === 1 ? `did you mean "${closest}"?` : `did you mean "${closest}"? ${all}`;
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll('-', '_');
}

function distance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replace = (last[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let edits = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, replace);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        edits = Math.min(edits, (beforeLast[j - 2] ?? 0) + 1);
      row.push(edits);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? 0;
}
