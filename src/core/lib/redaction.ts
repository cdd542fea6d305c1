import { escapeRegExp } from './escape-reg-exp.ts';

/** Keeps known secrets out of text that is logged or shown, whatever error or library put them there. */
export interface Redaction {
  /** Values shorter than six characters are ignored. */
  add(values: Iterable<string>): void;
  /** The text with every known secret replaced by `[secret]`. */
  clean(text: string): string;
}

// Shorter values would blank out ordinary words, and no useful secret is that short.
const shortestSecret = 6;

/**
 * Recognises each value as it is, as it is escaped in JSON and in a URL, and the password of a value that is
 * a URL.
 */
export function newRedaction(): Redaction {
  const known = new Set<string>();
  let pattern: RegExp | null = null;
  return {
    add(values) {
      for (const value of values)
        for (const form of formsOf(value)) if (form.length >= shortestSecret) known.add(form);
      // Longest first: one may contain another.
      const forms = [...known].sort((a, b) => b.length - a.length).map(escapeRegExp);
      pattern = forms.length === 0 ? null : new RegExp(forms.join('|'), 'g');
    },
    clean: (text) => (pattern === null ? text : text.replace(pattern, '[secret]')),
  };
}

function formsOf(value: string): string[] {
  const plain = URL.canParse(value) ? [value, new URL(value).password] : [value];
  const decoded = plain.map((one) => decodeOrKeep(one));
  return [...plain, ...decoded].flatMap((one) => [
    one,
    JSON.stringify(one).slice(1, -1),
    encodeURIComponent(one.toWellFormed()),
  ]);
}

function decodeOrKeep(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
