import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { WaybillError } from '../../core/errors.ts';
import { readBody, type MemoryBodyPorts } from '../http/request/body-in-memory.ts';
import type { Visitor } from './session/sessions.ts';

/** What a form without files sends. */
export type Form = URLSearchParams;

const mostBytes = 16 * 1024;
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
    mostBytes,
    tooLong: () => new WaybillError('invalid_request', `the form has more than ${mostBytes} bytes`),
  });
  return new URLSearchParams(bytes.toString('utf8'));
}

/**
 * Throws `form_expired` for what another site has sent. Browsers say so themselves; what says nothing is no
 * browser, and has no cookie that it did not ask for.
 */
export function requireOwnSite({ headers }: Pick<IncomingMessage, 'headers'>): void {
  const from = headers['sec-fetch-site'];
  if (from === undefined || from === 'same-origin' || from === 'none') return;
  throw notOurs('the form came from another site');
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
