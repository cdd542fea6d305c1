/** The text as an expression that matches it and nothing else, with and without the flag `u`. Pure. */
export function escapeRegExp(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
}
