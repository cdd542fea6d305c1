import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import { WaybillError } from '../../core/lib/errors.ts';
import { channelName, flag } from '../../core/lib/parameters.ts';
import { suggestion } from '../../core/lib/text.ts';
import type { AcceptedRun, Idempotency } from '../../workers/queue/job-queue.ts';
import { requestContext } from '../http/request/request-context.ts';
import { jsonContent, type OpenApiParameter, type ResponseObject } from '../http/route.ts';

/** Describes the response to all requests that start a run. */
export const acceptedResponse: ResponseObject = {
  description: 'The run is accepted.',
  headers: {
    Location: {
      description: 'URL of the run record.',
      required: true,
      schema: { type: 'string', format: 'uri-reference' },
    },
    'Idempotency-Replayed': {
      description: 'Present if the key was used before: this is the first response again.',
      schema: { const: 'true' },
    },
  },
  content: jsonContent('Accepted', {
    run_id: 'maps.20261120T020434Z.k3f9q2ab7x',
    status: 'accepted',
    position: 1,
  }),
};

export function sendAccepted(
  req: IncomingMessage,
  res: Response,
  basePath: string,
  { record, replayed, position }: AcceptedRun,
): void {
  const { run_id: runId } = record;
  requestContext(req).fields['run_id'] = runId;
  if (replayed) res.setHeader('Idempotency-Replayed', 'true');
  res.status(202).location(`${basePath}runs/${encodeURIComponent(runId)}`);
  res.json({ run_id: runId, status: 'accepted', position: position ?? undefined });
}

const form = /^[\x20-\x7e]{1,255}$/;

export const idempotencyKeyParameter: OpenApiParameter = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Makes the request safe to repeat: the same key with the same content gets the first response and starts no run. The scope is the token and the pipeline.',
  schema: { description: '1 to 255 printable ASCII characters.', type: 'string', pattern: form.source },
  example: 'session-42-build-7',
};

export const rerunFailed = flag(false, {
  description:
    'If the Idempotency-Key was used before and its run has failed: starts a new run instead of repeating the first response.',
});

/**
 * Returns the request's idempotency key in the form that the queue expects, or an empty object if there is
 * none. Throws `invalid_idempotency_key`.
 */
export function idempotencyOf(
  req: IncomingMessage,
  request: Omit<Idempotency, 'key'>,
): { idempotency?: Idempotency } {
  const key = idempotencyKey(req);
  return key === undefined ? {} : { idempotency: { ...request, key } };
}

/** Returns the value of the `Idempotency-Key` header, or undefined. Throws `invalid_idempotency_key`. */
function idempotencyKey(req: IncomingMessage): string | undefined {
  const values = req.headersDistinct['idempotency-key'];
  if (values === undefined) return undefined;
  const [key] = values;
  if (key !== undefined && values.length === 1 && form.test(key)) return key;
  throw new WaybillError(
    'invalid_idempotency_key',
    'the Idempotency-Key is not one header of 1 to 255 printable ASCII characters',
    {
      hint: 'use a unique key, such as a UUID',
    },
  );
}

export const channelQuery = channelName({
  description:
    'Publishes to this channel at the destinations that define it. The current release and other destinations do not change.',
  example: 'preview',
});

/** Throws `channel_not_found` if the channel does not exist at any of the pipeline's destinations. */
export function requireChannel(
  { id, channels }: { id: string; channels: readonly string[] },
  name: string,
): void {
  if (channels.includes(name)) return;
  throw new WaybillError(
    'channel_not_found',
    `no destination of the pipeline "${id}" has a channel "${name}"`,
    {
      hint: channels.length === 0 ? 'none is configured' : suggestion(name, channels),
    },
  );
}
