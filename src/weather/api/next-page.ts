import type { NextPage } from '../family.ts';

/**
 * The `Link` (RFC 8288) to the next page, relative to the request, so that it holds behind every proxy:
 * everything as it was asked, in the form of this answer, with another range. Pure.
 */
export function linkToNext(query: object, format: string, { start, end }: NextPage): string {
  const next: Record<string, unknown> = {
    ...query,
    start: start.toISOString(),
    end: end.toISOString(),
    format,
  };
  const given = Object.entries(next).filter(([, value]) => value !== null);
  const search = new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]));
  return `<?${search.toString()}>; rel="next"`;
}
