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
 * Sends a response, compressed if the client accepts that and the size justifies it. Do not use this for
 * responses that another site's page can request with a user's session: next to attacker-chosen text, the
 * compressed size would reveal secrets.
 */
export async function sendCompressed(
  req: IncomingMessage,
  res: ServerResponse,
  answer: TaggedAnswer,
): Promise<void> {
  const coding = codingFor(req.headers['accept-encoding'], answer.bytes);
  sendWithEtag(req, res, await encode(answer, coding));
}

/** Sends a JSON document that caches may not store, compressed like in `sendCompressed`. */
export function sendJson(req: IncomingMessage, res: ServerResponse, document: object): Promise<void> {
  const type = 'application/json; charset=utf-8';
  return sendCompressed(req, res, taggedAnswer(type, JSON.stringify(document), { vary: 'Accept-Encoding' }));
}
