import type { IncomingHttpHeaders } from 'node:http';

/** Returns the media type of a request body in lower case, without parameters; empty if there is none. */
export function mediaTypeOf({ headers }: { headers: IncomingHttpHeaders }): string {
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  return type.trim().toLowerCase();
}

/** Reports whether the media type is JSON, or a format that is based on it. */
export function isJson(mediaType: string): boolean {
  return /^application\/(?:[a-z0-9.-]+\+)?json$/.test(mediaType);
}
