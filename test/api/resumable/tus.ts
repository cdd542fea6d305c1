import { tokens } from '../harness.ts';

export interface TusOptions {
  token?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer> | null;
}

/** Sends a request of the tus protocol with the headers of a good client, except for the given options. */
export function tus(
  method: string,
  url: string,
  { token = tokens.maps, headers = {}, body = null }: TusOptions = {},
): Promise<Response> {
  return fetch(url, {
    method,
    body,
    headers: {
      'tus-resumable': '1.0.0',
      authorization: `Bearer ${token}`,
      ...(method === 'PATCH' ? { 'content-type': 'application/offset+octet-stream' } : {}),
      ...headers,
    },
  });
}

/** Starts an upload and returns its URL. If `length` is null, it is sent later. */
export async function begin(
  origin: string,
  length: number | null,
  {
    headers = {},
    query = '',
    token = tokens.maps,
    pipeline = 'maps',
  }: { headers?: Record<string, string>; query?: string; token?: string; pipeline?: string } = {},
): Promise<string> {
  const lengthHeader: Record<string, string> =
    length === null ? { 'upload-defer-length': '1' } : { 'upload-length': String(length) };
  const response = await tus('POST', `${origin}/v1/pipelines/${pipeline}/uploads${query}`, {
    token,
    headers: { ...lengthHeader, ...headers },
  });
  await response.text();
  return origin + (response.headers.get('location') ?? `/none-${response.status}`);
}

/** Sends `body` at `offset`. */
export function send(
  url: string,
  offset: number,
  body: string | Uint8Array<ArrayBuffer>,
  { headers = {}, token = tokens.maps }: { headers?: Record<string, string>; token?: string } = {},
): Promise<Response> {
  return tus('PATCH', url, { token, headers: { 'upload-offset': String(offset), ...headers }, body });
}

/** The offset that HEAD returns, or null if there is none. */
export async function offsetOf(url: string): Promise<number | null> {
  const response = await tus('HEAD', url);
  const offset = response.headers.get('upload-offset');
  return offset === null ? null : Number(offset);
}
