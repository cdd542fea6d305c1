import type { IncomingMessage } from 'node:http';
import { pipeline, type Readable, Transform } from 'node:stream';
import { NodeHttpHandler } from '@smithy/node-http-handler';

/**
 * The largest response that the SDK keeps in memory, which may be a listing, an error, or the result of a
 * call. A page of a listing has up to 1,000 keys of 1 KiB each, and URL encoding can make them three times as
 * long.
 */
export const maxResponseBytes = 8 * 2 ** 20;

export const responseTooLarge = 'AnswerTooLong';

/**
 * The SDK's HTTP handler, except that it limits the size of responses. If a response is too large, it fails
 * with an error called `AnswerTooLong`, and the connection is closed. This does not apply to the contents of
 * objects, which are limited by their readers.
 */
export class LimitedHandler extends NodeHttpHandler {
  override async handle(
    ...[request, options]: Parameters<NodeHttpHandler['handle']>
  ): ReturnType<NodeHttpHandler['handle']> {
    const answer = await super.handle(request, options);
    const { response } = answer;
    const isObject = request.query['x-id'] === 'GetObject' && response.statusCode < 300;
    const declared = Number(response.headers['content-length'] ?? Number.NaN);
    if (isObject || request.method === 'HEAD' || declared <= maxResponseBytes) return answer;
    response.body = limited(response.body as IncomingMessage);
    return answer;
  }
}

function limited(body: IncomingMessage): Readable {
  let size = 0;
  const limit = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.byteLength;
      if (size <= maxResponseBytes) done(null, chunk);
      else done(Object.assign(new Error(), { name: responseTooLarge }));
    },
  });
  // The error also reaches the reader of `limit`.
  return pipeline(body, limit, () => undefined);
}
