import type { RequestHandler } from 'express';
import type { Current } from '../../core/lib/current.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Notifier } from '../../core/notify/notifier.ts';
import type { Undelivered } from '../../core/notify/undelivered.ts';
import type { HttpPorts } from '../http/app.ts';
import { emptyRequest, requireEmptyRequest } from '../http/json-body.ts';
import { queryParameters } from '../http/query-parameters.ts';
import type { MemoryBodyPorts } from '../http/request/request-body.ts';
import { keepAuthorized } from '../http/request/request-context.ts';
import { jsonContent, type JsonSchema, type Parameter, type Route } from '../http/route.ts';
import { authorizeOperator, type OperatorAccess } from '../pipelines/pipeline-access.ts';

/*
 * Undelivered events: operators list them and send them again. Both need the admin token, because the events
 * belong to all pipelines.
 */

/** The notifiers. A reload replaces it. */
export interface NotifierAccess {
  /** Ids of the configured notifiers. */
  notifierIds: ReadonlySet<string>;
}

export interface UndeliveredPorts extends HttpPorts, MemoryBodyPorts {
  http: HttpPorts['http'];
  log: Log;
  configured: Current<OperatorAccess & NotifierAccess>;
  notifier: Pick<Notifier, 'undelivered' | 'redeliver'>;
  /** Aborts when the daemon starts to shut down. */
  draining: AbortSignal;
}

const noQuery = queryParameters({});

const notifierIdParameter: Parameter = {
  name: 'notifier_id',
  in: 'path',
  required: true,
  description: 'Id of a notifier.',
  schema: { type: 'string' },
  example: 'hook',
};

const text = (description: string): JsonSchema => ({ description, type: 'string' });
const textOrNull = (description: string): JsonSchema => ({ description, type: ['string', 'null'] });
const count = (description: string): JsonSchema => ({ description, type: 'integer', minimum: 0 });
const time = (description: string): JsonSchema => ({ ...text(description), format: 'date-time' });
const object = (properties: Record<string, JsonSchema>): JsonSchema => ({
  type: 'object',
  additionalProperties: false,
  required: Object.keys(properties),
  properties,
});

/** Lists the undelivered events of one notifier. */
export const listUndeliveredRoute: Route<UndeliveredPorts> = {
  method: 'get',
  path: '/v1/notifiers/{notifier_id}/undelivered',
  operationId: 'listUndelivered',
  tag: 'daemon',
  summary: 'List the events that a notifier has given up',
  description:
    'Needs the token of `server.admin_token_env`. At most 1,000 are kept for each notifier; the oldest go first. A notifier that a reload has removed is found as long as something is kept for it.',
  access: 'token',
  parameters: [notifierIdParameter],
  responses: {
    200: {
      description: 'The events, in the order in which they happened.',
      content: jsonContent(
        object({
          notifier_id: { type: 'string' },
          configured: { description: 'Whether they can be sent again now.', type: 'boolean' },
          events: {
            type: 'array',
            items: object({
              event_id: text('As it was sent, and will be sent again.'),
              type: { type: 'string' },
              timestamp: time('When it happened.'),
              pipeline_id: textOrNull('The pipeline that it is about.'),
              destination_id: textOrNull('The destination, where it is about one.'),
              run_id: textOrNull('The run that it tells of.'),
              given_up_at: time('When it was given up last.'),
              tries: count('All tries so far.'),
              reason: text('Why it was given up last.'),
            }),
          },
        }),
      ),
    },
  },
  problems: ['forbidden', 'notifier_not_found', 'invalid_request', 'queue_unavailable'],
  handle: (ports) => list(ports),
};

/** Sends the undelivered events of one notifier again. */
export const redeliverRoute: Route<UndeliveredPorts> = {
  method: 'post',
  path: '/v1/notifiers/{notifier_id}/redeliver',
  operationId: 'redeliver',
  tag: 'daemon',
  summary: 'Send the events again that a notifier has given up',
  description:
    'Needs the token of `server.admin_token_env`. The events are sent one after another, in the order in which they happened, with the ids that they had. One that is delivered is kept no more; the others stay, in their order. Where the receiver is away the rest is not tried. After 20 seconds no other event is begun: ask again.',
  access: 'token',
  parameters: [notifierIdParameter],
  body: emptyRequest,
  responses: {
    200: {
      description: 'What came of it.',
      content: jsonContent(
        object({
          notifier_id: { type: 'string' },
          delivered: count('Events that were delivered.'),
          left: count('Events that are undelivered now.'),
          ended: {
            description:
              'Why it ended: `all_tried`; `failing`: the receiver is away; `time_over`: there is more, ask again; `stopping`: the daemon stops, or the notifier was removed.',
            enum: ['all_tried', 'failing', 'time_over', 'stopping'],
          },
          failed: {
            description: 'Events that were tried and not delivered.',
            type: 'array',
            items: object({
              event_id: { type: 'string' },
              type: { type: 'string' },
              reason: { type: 'string' },
            }),
          },
        }),
      ),
    },
  },
  problems: [
    'forbidden',
    'notifier_not_found',
    'invalid_request',
    'unsupported_media_type',
    'redelivery_running',
    'queue_unavailable',
  ],
  audit: 'events.redeliver',
  handle: (ports) => redeliver(ports),
};

function list({ configured, notifier }: UndeliveredPorts): RequestHandler<{ notifierId: string }> {
  return async (req, res) => {
    const { notifierId } = req.params;
    const access = configured.get();
    authorizeOperator(req, res, access);
    noQuery.read(req.url);
    const events = await notifier.undelivered(notifierId);
    if (events === null)
      throw new WaybillError('notifier_not_found', `there is no notifier "${notifierId}"`, {
        hint: 'check the id of the notifier in the path',
      });
    res.json({
      notifier_id: notifierId,
      configured: access.notifierIds.has(notifierId),
      events: events.map(lineOf),
    });
  };
}

function lineOf({ event, givenUpAt, tries, reason }: Undelivered): Record<string, unknown> {
  const { id, type, timestamp, data } = event;
  return {
    event_id: id,
    type,
    timestamp,
    pipeline_id: 'pipeline_id' in data ? data.pipeline_id : null,
    destination_id: 'destination_id' in data ? data.destination_id : null,
    run_id: 'run_id' in data ? data.run_id : null,
    given_up_at: givenUpAt,
    tries,
    reason,
  };
}

function redeliver(ports: UndeliveredPorts): RequestHandler<{ notifierId: string }> {
  return async (req, res) => {
    const { notifierId } = req.params;
    keepAuthorized(req, () => authorizeOperator(req, res, ports.configured.get()));
    await requireEmptyRequest(req, res, ports);
    const { delivered, left, ended, failed } = await ports.notifier.redeliver(notifierId, ports.draining);
    ports.log.info({ notifier: notifierId, delivered, left, ended }, 'undelivered events sent again');
    res.json({
      notifier_id: notifierId,
      delivered,
      left,
      ended,
      failed: failed.map(({ eventId, ...rest }) => ({ event_id: eventId, ...rest })),
    });
  };
}
