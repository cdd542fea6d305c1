import type { IncomingMessage, ServerResponse } from 'node:http';

/** Runs `authenticate`; where it throws, the answer says how to authenticate (RFC 6750, section 3). */
export function challenge<T>(req: IncomingMessage, res: ServerResponse, authenticate: () => T): T {
  try {
    return authenticate();
  } catch (error) {
    const hint = req.headers.authorization === undefined ? '' : ', error="invalid_token"';
    res.setHeader('WWW-Authenticate', `Bearer realm="waybill"${hint}`);
    throw error;
  }
}
