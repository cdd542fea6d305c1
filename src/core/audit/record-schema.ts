import { actResults, acts } from './record.ts';

const text = (description: string): object => ({ description, type: 'string' });
const textOrNull = (description: string): object => ({ description, type: ['string', 'null'] });
const facts = { type: ['string', 'number', 'boolean', 'null'] };

const properties = {
  seq: {
    description: 'The number of the record: 1 for the first one of a host, then one more each.',
    type: 'integer',
    minimum: 1,
  },
  time: { ...text('When the act ended: RFC 3339, UTC.'), format: 'date-time' },
  host: text('Name of the machine.'),
  act: { description: 'The act; see docs/audit.md for each.', enum: acts },
  result: {
    description:
      '`refused`: not allowed or not valid, so nothing was changed. `failed`: tried without success.',
    enum: actResults,
  },
  code: textOrNull('Error code of an act that was not done.'),
  actor: {
    description:
      'The subject: `type` is `token`, `publisher`, `user`, `os_user`, `schedule`, `watch`, `daemon` or `anonymous`, `id` its name. `via` is `api` or `console` for requests. `claims_digest` is the digest of the claims of a publisher, and `issuer` the issuer of a user.',
    type: 'object',
    required: ['type', 'id'],
    properties: { type: { type: 'string' }, id: { type: ['string', 'null'] } },
    additionalProperties: facts,
  },
  address: textOrNull('Address of the client, as server.http.trusted_proxies determines it.'),
  pipeline_id: textOrNull('The pipeline.'),
  destination_id: textOrNull('The destination.'),
  run_id: textOrNull('The run that the act started or changed.'),
  request_id: textOrNull('The request, as `X-Request-Id` and the log have it.'),
  detail: { description: 'Further facts about the act.', type: 'object', additionalProperties: facts },
  prev: {
    description: 'Digest of the line before, without its line feed; null in the first record.',
    type: ['string', 'null'],
    pattern: '^sha256:[0-9a-f]{64}$',
  },
};

export const auditRecordSchema = {
  description: 'One record of the audit trail.',
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
};
