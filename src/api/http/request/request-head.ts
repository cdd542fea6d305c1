import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { WaybillError } from '../../../core/lib/errors.ts';

/**
 * Converts an absolute target, such as `http://host/path`, to the path that routes expect, and uses its host
 * instead of the `Host` header (RFC 9112, 3.2.2). Express leaves out all handlers for a target that it cannot
 * parse, so such a target becomes `/` and is remembered for `refusedHead`.
 */
export function useOriginForm(req: Pick<IncomingMessage, 'url' | 'headers'>): void {
  const { url = '/' } = req;
  if (url.startsWith('/') || url === '*') return;
  const [, authority, path = ''] = /^https?:\/\/([^/?#\\]+)([/?#].*)?$/i.exec(url) ?? [];
  const host = authority?.slice(authority.lastIndexOf('@') + 1) ?? '';
  if (host === '' || !URL.canParse(`http://${host}`)) {
    req.url = '/';
    unreadableTargets.add(req);
    return;
  }
  req.url = path.startsWith('/') ? path : `/${path}`;
  req.headers.host = host;
}

const unreadableTargets = new WeakSet<object>();

/**
 * Checks the head of a request against rules that apply to all routes:
 *
 * - exactly one Host (RFC 9112, 3.2)
 * - no second Authorization, because a proxy may check another one than this process does
 * - no transfer coding except `chunked` (RFC 9112, 6.1)
 * - no expectation except `100-continue` (RFC 9110, 10.1.1)
 * - a target that is a path, or a URL with a valid host
 *
 * For some violations, Node.js responds without a body, and others it lets through. Also rejects hosts that
 * are not in `allowedHosts`, unless that is null. Returns the error, or null if the head is valid.
 */
export function refusedHead(
  req: Pick<IncomingMessage, HeadParts>,
  allowedHosts: readonly string[] | null,
): WaybillError | null {
  if (unreadableTargets.has(req)) return malformed('the request target is not a path or an http URL');
  const hosts = countHeaders(req.rawHeaders, 'host');
  if (hosts > 1 || (hosts === 0 && req.httpVersion !== '1.0'))
    return malformed(
      hosts === 0 ? 'the request has no Host header' : `the request has ${hosts} Host headers`,
    );
  if (countHeaders(req.rawHeaders, 'authorization') > 1)
    return malformed('the request has more than one Authorization header');
  const { 'transfer-encoding': coding, expect, host } = req.headers;
  if (allowedHosts !== null && host !== undefined && !isAllowedHost(host, allowedHosts))
    return new WaybillError('host_not_allowed', 'this daemon does not answer for the host of the request', {
      hint: 'add the name to server.http.allowed_hosts',
    });
  if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') return unsupportedCoding();
  if (expect !== undefined && req.httpVersion !== '1.0' && expect.trim().toLowerCase() !== '100-continue')
    return new WaybillError('expectation_failed', 'this Expect header is not supported', {
      hint: 'send `Expect: 100-continue`, or none',
    });
  return null;
}

type HeadParts = 'rawHeaders' | 'headers' | 'httpVersion';

/** Creates the error for an invalid HTTP request. */
export function malformed(what: string): WaybillError {
  return new WaybillError('malformed_request', what, { hint: 'send one request as RFC 9112 says' });
}

export function unsupportedCoding(): WaybillError {
  return new WaybillError('unsupported_transfer_coding', 'the only supported transfer coding is chunked', {
    hint: 'send the body as it is, with its Content-Length or with `Transfer-Encoding: chunked`',
  });
}

/** Looks at the raw headers, because `headers` ignores a second header of these names. */
function countHeaders(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let at = 0; at < rawHeaders.length; at += 2)
    if (rawHeaders[at]?.length === name.length && rawHeaders[at]?.toLowerCase() === name) count += 1;
  return count;
}

/**
 * Reports whether the hostname in a `Host` header is allowed. IP addresses and loopback names always are: a
 * DNS rebinding attack cannot use them, because its requests carry the attacker's domain name.
 */
export function isAllowedHost(header: string, allowed: readonly string[]): boolean {
  const [, bracketed, plain] = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::\d{0,5})?$/.exec(header.trim()) ?? [];
  const host = (bracketed ?? plain ?? '').toLowerCase().replace(/\.$/, '');
  if (isIP(host) !== 0 || host === 'localhost' || host.endsWith('.localhost')) return true;
  return allowed.some((name) => name.toLowerCase() === host);
}

/** Returns the media type of a request body in lower case, without parameters; empty if there is none. */
export function mediaTypeOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const [type = ''] = (headers['content-type'] ?? '').split(';', 1);
  return type.trim().toLowerCase();
}

/** Reports whether the media type is JSON, or a format that is based on it. */
export function isJson(mediaType: string): boolean {
  return /^application\/(?:[a-z0-9.-]+\+)?json$/.test(mediaType);
}
