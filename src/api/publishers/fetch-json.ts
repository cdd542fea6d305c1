import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Clock } from '../../core/lib/clock.ts';
import { AddressError, codeOf, guardLookup, refusedIpHost } from '../../core/notify/sinks/guarded-lookup.ts';

/** The largest document to accept from an issuer, in bytes. GitHub's keys take up 5 KiB. */
export const maxDocumentBytes = 256 * 1024;
/** The timeout for a request, in milliseconds. */
const timeoutMs = 10_000;

/**
 * The reason why a document could not be fetched. The message contains the URL's origin, but never its path.
 */
export class FetchFailure extends Error {
  override readonly name = 'FetchFailure';
}

interface SentForm {
  fields: URLSearchParams;
  authorization?: string;
}

interface FetchedJson {
  status: number;
  document: unknown;
}

/** Fetches a JSON document from an issuer. Throws `FetchFailure`. */
export async function fetchJson(url: URL, clock: Pick<Clock, 'timeout'>): Promise<unknown> {
  return (await requestJson(url, clock)).document;
}

/**
 * Fetches a JSON document from an issuer, or posts a form to it, which the issuer may also answer with status
 * 400 or 401. Does not follow redirects, ignores proxy settings in the environment, and only connects to
 * addresses that are allowed for webhooks. Throws `FetchFailure`.
 */
export async function requestJson(
  url: URL,
  clock: Pick<Clock, 'timeout'>,
  form?: SentForm,
): Promise<FetchedJson> {
  const refused = refusedIpHost(url.hostname, []);
  if (refused !== null) throw new FetchFailure(`the host of ${url.origin} is ${refused}, which is refused`);
  const ended = new AbortController();
  const timer = clock.timeout(timeoutMs, () => ended.abort());
  try {
    const { status, bytes } = await send(url, form, ended.signal);
    const document = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown;
    return { status, document };
  } catch (error) {
    if (ended.signal.aborted)
      throw new FetchFailure(`${url.origin} did not answer within ${timeoutMs / 1000} s`);
    throw failureOf(error, url);
  } finally {
    timer.cancel();
  }
}

function send(
  url: URL,
  form: SentForm | undefined,
  signal: AbortSignal,
): Promise<{ status: number; bytes: Buffer }> {
  const accepted = form === undefined ? [200] : [200, 400, 401];
  const headers = {
    accept: 'application/json',
    'user-agent': 'waybill',
    ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
    ...(form?.authorization === undefined ? {} : { authorization: form.authorization }),
  };
  const method = form === undefined ? 'GET' : 'POST';
  return new Promise((resolve, reject) => {
    const request = url.protocol === 'https:' ? httpsRequest : httpRequest;
    request(url, { method, agent: false, headers, lookup: guardLookup([]), signal })
      .on('error', reject)
      // If the answer is `101 Switching Protocols`, this is the only event.
      .on('close', () => reject(new FetchFailure(`${url.origin} closed the connection without an answer`)))
      .on('response', (response) => {
        const { statusCode: status = 0 } = response;
        const parts: Buffer[] = [];
        let length = 0;
        const refuse = (reason: string): void => {
          response.destroy();
          reject(new FetchFailure(`${url.origin} ${reason}`));
        };
        if (status >= 300 && status < 400) refuse('redirects, which is not followed');
        else if (!accepted.includes(status)) refuse(`answered ${status}`);
        response
          .on('error', reject)
          .on('data', (chunk: Buffer) => {
            length += chunk.length;
            parts.push(chunk);
            if (length > maxDocumentBytes) refuse(`answered more than ${maxDocumentBytes / 1024} KiB`);
          })
          .on('end', () => resolve({ status, bytes: Buffer.concat(parts) }));
      })
      .end(form?.fields.toString());
  });
}

function failureOf(error: unknown, { origin }: URL): FetchFailure {
  if (error instanceof FetchFailure) return error;
  if (error instanceof AddressError)
    return new FetchFailure(`the host of ${origin} is ${error.message}, which is refused`);
  if (error instanceof SyntaxError || error instanceof TypeError)
    return new FetchFailure(`${origin} did not answer with JSON`);
  return new FetchFailure(
    `${origin} cannot be reached (${error instanceof Error ? codeOf(error) : 'unknown error'})`,
  );
}
