import type { IncomingMessage } from 'node:http';
import { WaybillError } from '../../core/lib/errors.ts';
import { flag } from '../../core/lib/parameters.ts';
import type { Idempotency } from '../../workers/queue/job-queue.ts';
import type { Parameter } from '../http/openapi-types.ts';

const form = /^[\x20-\x7e]{1,255}$/;

export const idempotencyKeyParameter: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Makes repeating the request safe: the same key with the same content is answered like the first time and starts nothing. Scoped to the token and the pipeline.',
  schema: { type: 'string', pattern: form.source },
  example: 'session-42-build-7',
};

/** The query parameter of every request that takes a key. */
export const rerunFailed = flag(false, {
  description:
    'If the Idempotency-Key was used before and its run has failed: starts a new run instead of repeating the first answer.',
});

/** What the key of a request means to the queue; nothing if it has none. Throws `invalid_idempotency_key`. */
export function idempotencyOf(
  req: IncomingMessage,
  request: Omit<Idempotency, 'key'>,
): { idempotency?: Idempotency } {
  const key = idempotencyKey(req);
  return key === undefined ? {} : { idempotency: { ...request, key } };
}

/** The key of a request; undefined if it has none. Throws `invalid_idempotency_key`. */
function idempotencyKey(req: IncomingMessage): string | undefined {
  const values = req.headersDistinct['idempotency-key'];
  if (values === undefined) return undefined;
  const [key] = values;
  if (key !== undefined && values.length === 1 && form.test(key)) return key;
  throw new WaybillError(
    'invalid_idempotency_key',
    'the Idempotency-Key is not one header of 1 to 255 printable ASCII characters',
    {
      hint: 'a UUID serves well',
    },
  );
}
