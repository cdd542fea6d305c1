/** Of a path relative to the root. Readers find the feeds at the root, so that relative links lead there. */
export function linkTo(path: string, baseUrl: string | null): string {
  // With `./` no path is ever taken for a scheme.
  return (baseUrl ?? './') + path.split('/').map(encodeURIComponent).join('/');
}
