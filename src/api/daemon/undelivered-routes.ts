import type { RequestHandler } from 'express';
import type { Current } from '../../core/lib/current.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { Notifier } from '../../core/notify/notifier.ts';
import type { Undelivered } from '../../core/notify/outbox.ts';
import type { RoutePorts } from '../http/http-app.ts';
import { emptyRequest, requireEmptyRequest } from '../http/json-body.ts';
import { queryParameters } from '../http/query-parameters.ts';
import { keepAuthorized } from '../http/request/request-context.ts';
import { jsonContent, type OpenApiParameter, type Route } from '../http/route.ts';
import { authorizeOperator, type OperatorAccess } from '../pipelines/pipeline-access.ts';

/*
 * Lets administrators list undelivered events and resend them. Both routes require the admin token, because a
 * notifier's events can be about any pipeline.
 */

/** The notifiers in the current configuration. Replaced on reload. */
export interface NotifierAccess {
  notifierIds: ReadonlySet<string>;
}

export interface UndeliveredPorts extends RoutePorts {
  configured: Current<OperatorAccess & NotifierAccess>;
  notifier: Pick<Notifier, 'undelivered' | 'redeliver'>;
  /** Aborted when the daemon begins to shut down. */
  draining: AbortSignal;
}

const noQuery = queryParameters({});

const notifierIdParameter: OpenApiParameter = {
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

export const listUndeliveredRoute: Route<UndeliveredPorts> = {
  method: 'get',
  path: '/v1/notifiers/{notifier_id}/undelivered',
  operationId: 'listUndelivered',
  tag: 'daemon',
  summary: 'List undelivered events',
  description:
    'At most 1,000 events are kept for each notifier; the oldest are removed first. A notifier that a reload removed is listed as long as it has undelivered events.',
  access: 'token',
  scopes: ['admin'],
  parameters: [notifierIdParameter],
  responses: {
    200: {
      description: 'Undelivered events, oldest first.',
      content: jsonContent(
        object({
          notifier_id: { type: 'string' },
          configured: {
            description: 'Whether the notifier is still configured. Only then can its events be redelivered.',
            type: 'boolean',
          },
          events: {
            type: 'array',
            items: object({
              event_id: text('The event as it was sent and will be sent again.'),
              type: { type: 'string' },
              timestamp: time('When it happened.'),
              pipeline_id: textOrNull('Pipeline of the event.'),
              destination_id: textOrNull('Destination of the event, if it has one.'),
              run_id: textOrNull('Run of the event.'),
              given_up_at: time('Time of the last failed delivery.'),
              tries: count('Number of tries so far.'),
              reason: text('Reason of the last failed delivery.'),
            }),
          },
        }),
      ),
    },
  },
  problems: ['forbidden', 'notifier_not_found', 'invalid_request', 'queue_unavailable'],
  handle: (ports) => list(ports),
};

export const redeliverRoute: Route<UndeliveredPorts> = {
  method: 'post',
  path: '/v1/notifiers/{notifier_id}/redeliver',
  operationId: 'redeliver',
  tag: 'daemon',
  summary: 'Redeliver undelivered events',
  description:
    'Sends the events one by one, oldest first, with their original ids. Delivered events are removed; the others keep their order. If the receiver is unreachable, the remaining events are not attempted. No event is started after 20 seconds: repeat the request for the rest.',
  access: 'token',
  scopes: ['admin'],
  parameters: [notifierIdParameter],
  body: emptyRequest,
  responses: {
    200: {
      description: 'Result of the redelivery.',
      content: jsonContent(
        object({
          notifier_id: { type: 'string' },
          delivered: count('Events that were delivered.'),
          left: count('Events that are undelivered now.'),
          ended: {
            description:
              'Why the redelivery ended. `all_tried`: every event was attempted. `failing`: the receiver is unreachable. `time_over`: the time limit was reached; repeat the request. `stopping`: the daemon is stopping, or the notifier was removed.',
            enum: ['all_tried', 'failing', 'time_over', 'stopping'],
          },
          failed: {
            description: 'Events that were attempted and not delivered.',
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

/** Returns the ids of the pipeline, the destination and the run that an event is about. */
export function subjectOf({ data }: Undelivered['event']): Subject {
  return {
    pipeline_id: 'pipeline_id' in data ? data.pipeline_id : null,
    destination_id: 'destination_id' in data ? data.destination_id : null,
    run_id: 'run_id' in data ? data.run_id : null,
  };
}

type Subject = Record<'pipeline_id' | 'destination_id' | 'run_id', string | null>;

function lineOf({ event, givenUpAt, tries, reason }: Undelivered): Record<string, unknown> {
  const { id, type, timestamp } = event;
  return {
    event_id: id,
    type,
    timestamp,
    ...subjectOf(event),
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
