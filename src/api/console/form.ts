import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import { readBody, smallBodyBytes, type MemoryBodyPorts } from '../http/request/body-in-memory.ts';
import type { Visitor } from './session/sessions.ts';

/** What a form without files sends. */
export type Form = URLSearchParams;

const formType = 'application/x-www-form-urlencoded';

/** Throws `unsupported_media_type`, `invalid_request` for one of more than 16 KiB, and as `readBody`. */
export async function readForm(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<Form> {
  const type = (req.headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (type !== formType)
    throw new WaybillError('unsupported_media_type', 'this is not what a form of the console sends', {
      hint: `send ${formType}`,
    });
  const bytes = await readBody(req, res, ports, {
    mostBytes: smallBodyBytes,
    tooLong: () => new WaybillError('invalid_request', `the form has more than ${smallBodyBytes} bytes`),
  });
  return new URLSearchParams(bytes.toString('utf8'));
}

/**
 * Throws `form_expired` if another site sent the request. Browsers name the site in `Sec-Fetch-Site`, but not
 * over plain HTTP to another machine: there `Origin` must name the host of the request. A client that sends
 * neither is no browser, and has only the cookies that it asked for.
 */
export function requireOwnSite({ headers, host }: Pick<Request, 'headers' | 'host'>): void {
  const from = headers['sec-fetch-site'];
  const isOwn =
    from === undefined
      ? headers.origin === undefined || hostOf(headers.origin) === host
      : from === 'same-origin' || from === 'none';
  if (!isOwn) throw notOurs('the form came from another site');
}

/** null for the origin `null` of a sandboxed page, and for an invalid URL. */
function hostOf(origin: string): string | null {
  return URL.canParse(origin) ? new URL(origin).host : null;
}

/** Throws `form_expired` if the form does not have the token of the session. */
export function requireCsrf({ session }: Pick<Visitor, 'session'>, sent: string | null | undefined): void {
  const [expected, found] = [Buffer.from(session.csrf), Buffer.from(sent ?? '')];
  if (expected.length === found.length && timingSafeEqual(expected, found)) return;
  throw notOurs('the form does not belong to this session');
}

function notOurs(message: string): WaybillError {
  return new WaybillError('form_expired', message, {
    hint: 'open the page again and send its form from there',
  });
}
