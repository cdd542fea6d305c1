import type { IncomingMessage } from 'node:http';
import { pipeline, type Readable, Transform } from 'node:stream';
import { NodeHttpHandler } from '@smithy/node-http-handler';

/**
 * The longest response that the SDK buffers in memory: a listing, an error or the result of a call. A listing
 * page has at most 1,000 keys of 1 KiB, which URL encoding can triple.
 */
export const maxAnswerBytes = 8 * 2 ** 20;

export const answerTooLong = 'AnswerTooLong';

/**
 * The SDK's HTTP handler with a limit on the response size. A longer response fails with an error named
 * `AnswerTooLong`, and its connection is closed. Object bodies are limited by their readers.
 */
export class LimitedHandler extends NodeHttpHandler {
  override async handle(
    ...[request, options]: Parameters<NodeHttpHandler['handle']>
  ): ReturnType<NodeHttpHandler['handle']> {
    const answer = await super.handle(request, options);
    const { response } = answer;
    const isObject = request.query['x-id'] === 'GetObject' && response.statusCode < 300;
    const declared = Number(response.headers['content-length'] ?? Number.NaN);
    if (isObject || request.method === 'HEAD' || declared <= maxAnswerBytes) return answer;
    response.body = limited(response.body as IncomingMessage);
    return answer;
  }
}

function limited(body: IncomingMessage): Readable {
  let size = 0;
  const limit = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      size += chunk.byteLength;
      if (size <= maxAnswerBytes) done(null, chunk);
      else done(Object.assign(new Error(), { name: answerTooLong }));
    },
  });
  // The reader of `limit` also receives the error.
  return pipeline(body, limit, () => undefined);
}
