import type { IncomingHttpHeaders } from 'node:http';

/** The part of a request that decides its answer. */
export interface WeatherRequest {
  /** With its query. */
  url: string;
  accept: string | undefined;
  acceptEncoding: string | undefined;
}

/** @param url With its query. */
export function weatherRequest(url: string, headers: IncomingHttpHeaders): WeatherRequest {
  const { accept, 'accept-encoding': encodings } = headers;
  return { url, accept, acceptEncoding: Array.isArray(encodings) ? encodings.join() : encodings };
}
