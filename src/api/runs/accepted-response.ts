import { jsonContent } from '../http/json-content.ts';
import type { ResponseObject } from '../http/openapi-types.ts';

/** The answer to whatever starts a run. */
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
  content: jsonContent('Accepted', { run_id: 'maps.20261120T020434Z.k3f9q2ab7x', status: 'accepted' }),
};
