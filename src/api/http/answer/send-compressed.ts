import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  codingFor,
  newAnswerEncoder,
  sendWithEtag,
  type TaggedAnswer,
  taggedAnswer,
} from './send-with-etag.ts';

const encode = newAnswerEncoder();

/**
 * Sends a response, compressed if the client supports it and the body is large enough. Do not use it for
 * responses to a session if another site's page can trigger the request: if the body also contains text
 * chosen by that page, its compressed size can leak secrets.
 */
export async function sendCompressed(
  req: IncomingMessage,
  res: ServerResponse,
  answer: TaggedAnswer,
): Promise<void> {
  const coding = codingFor(req.headers['accept-encoding'], answer.bytes);
  sendWithEtag(req, res, await encode(answer, coding));
}

/**
 * Sends a JSON document that must not be cached. It is compressed under the same conditions as in
 * `sendCompressed`.
 */
export function sendJson(req: IncomingMessage, res: ServerResponse, document: object): Promise<void> {
  const type = 'application/json; charset=utf-8';
  return sendCompressed(req, res, taggedAnswer(type, JSON.stringify(document), { vary: 'Accept-Encoding' }));
}
