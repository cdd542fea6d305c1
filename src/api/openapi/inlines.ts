/** A part of a description for the API reference: text or code. */
export interface Inline {
  text: string;
  code: boolean;
}

export function paragraphs(markdown: string): Inline[][] {
  return markdown === '' ? [] : markdown.split('\n\n').map(inlines);
}

/** Splits a description into text and code. Backticks are the only markup that descriptions use. */
export function inlines(markdown: string): Inline[] {
  return markdown.split('`').map((text, index) => ({ text, code: index % 2 === 1 }));
}
