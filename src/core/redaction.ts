/** Keeps known secrets out of text that is written down, whatever error or library put them there. */
export interface Redaction {
  add(values: Iterable<string>): void;
  clean(text: string): string;
}

// Shorter values would blank out ordinary words, and no secret of use is that short.
const shortestSecret = 6;

/**
 * The values themselves, as they stand inside JSON, as they stand in a URL, and the password of one that is a
 * URL.
 */
export function newRedaction(): Redaction {
  const known = new Set<string>();
  let pattern: RegExp | null = null;
  return {
    add(values) {
      for (const value of values)
        for (const form of formsOf(value)) if (form.length >= shortestSecret) known.add(form);
      // The longest first: one may hold another.
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

function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
