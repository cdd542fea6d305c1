/**
 * The link to a path below the root. It is relative if `baseUrl` is unknown, because the feeds are at the
 * root.
 */
export function linkTo(path: string, baseUrl: string | null): string {
  // The `./` prevents a path with a colon from being read as a URL scheme.
  return (baseUrl ?? './') + path.split('/').map(encodeURIComponent).join('/');
}
