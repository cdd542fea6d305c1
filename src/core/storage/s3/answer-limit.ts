import type { IncomingMessage } from 'node:http';
import { pipeline, type Readable, Transform } from 'node:stream';
import { NodeHttpHandler } from '@smithy/node-http-handler';

/**
 * The longest answer that the SDK keeps in memory: a listing, an error, or the result of a call. A page of a
 * listing has at most 1,000 keys of 1 KiB, which URL encoding triples.
 */
export const maxAnswerBytes = 8 * 2 ** 20;

export const answerTooLong = 'AnswerTooLong';

/**
 * The HTTP handler of the SDK with a limit on answers. The reader of an object limits its body. A longer
 * answer fails with an error named `AnswerTooLong`, and its connection is closed.
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
  // The reader of `limit` gets the error, too.
  return pipeline(body, limit, () => undefined);
}
