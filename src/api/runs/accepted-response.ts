import type { IncomingMessage } from 'node:http';
import type { Response } from 'express';
import type { AcceptedRun } from '../../workers/queue/job-queue.ts';
import { jsonContent } from '../http/json-content.ts';
import type { ResponseObject } from '../http/openapi-types.ts';
import { requestContext } from '../http/request/request-context.ts';

/** The answer to every request that starts a run. */
export const acceptedResponse: ResponseObject = {
  description: 'The run is accepted.',
  headers: {
    Location: {
      description: "Where the run's record is.",
      required: true,
      schema: { type: 'string', format: 'uri-reference' },
    },
    'Idempotency-Replayed': {
      description: 'Present where the key was used before: this is the first answer once more.',
      schema: { const: 'true' },
    },
  },
  content: jsonContent('Accepted', {
    run_id: 'maps.20261120T020434Z.k3f9q2ab7x',
    status: 'accepted',
    position: 1,
  }),
};

/** Sends that answer. */
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
  res.json({ run_id: runId, status: 'accepted', ...(position === null ? {} : { position }) });
}
