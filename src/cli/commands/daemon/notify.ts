import { notifiersOf } from '../../../core/config/secret-references.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { isRecord } from '../../../core/lib/json-document.ts';
import { deliver, type DeliveryResult } from '../../../core/notify/deliver.ts';
import { type Event, eventOf } from '../../../core/notify/event.ts';
import { newEventId } from '../../../core/notify/event-id.ts';
import { type NotifierConfig, type OpenNotifier, openNotifiers } from '../../../core/notify/sink-kinds.ts';
import { testOccurrence } from '../../../core/publish/results/occurrences.ts';
import { columns } from '../../output/output.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import { openOperator, type Operator } from '../../setup/operator.ts';
import { type CommandContext, setUp, unknownName } from '../../setup/set-up.ts';
import type { notifyTestCommand, undeliveredCommand } from './commands.ts';

interface Tested {
  config: NotifierConfig;
  event: Event;
  delivery: DeliveryResult;
  ms: number;
}

/**
 * Implements `waybill notify test`. Sends a test event to each notifier, regardless of the events it
 * subscribes to. There are no retries, to keep the command short.
 */
export async function notifyTest(
  options: OptionsFor<typeof notifyTestCommand>,
  { output, signal }: Io,
): Promise<number> {
  const prepared = await setUp({ ...options, output, signal, pipelineIds: [] });
  const configs = selectNotifiers(prepared, options.notifier);
  const { notifiers, warnings } = await openNotifiers(configs, prepared.context);
  const tested = await Promise.all(notifiers.map(async (notifier) => test(notifier, prepared, signal)));
  const all = [...prepared.warnings, ...warnings];
  const delivered = tested.every(({ delivery }) => delivery.delivered);
  const results = tested.map(({ config, event, delivery, ms }) => ({
    notifierId: config.id,
    kind: config.kind,
    eventId: event.id,
    delivered: delivery.delivered,
    reason: delivery.reason,
    ms,
  }));
  output.result('notify-test', { delivered, notifiers: results, warnings: all }, () => {
    const { style } = output;
    const rows = results.map(({ notifierId, kind, delivered: isDelivered, reason, ms }) => [
      isDelivered ? style.green('✓') : style.red('✗'),
      notifierId,
      kind,
      isDelivered ? `delivered in ${ms} ms` : `not delivered: ${reason ?? ''}`,
    ]);
    for (const line of columns(rows)) output.data(line);
  });
  return delivered ? 0 : 1;
}

function selectNotifiers({ config }: CommandContext, ids: readonly string[] | undefined): NotifierConfig[] {
  const known = config.notifiers.map(({ id }) => id);
  const unknown = ids?.find((id) => !known.includes(id));
  if (unknown !== undefined) throw unknownName('notifier', unknown, known);
  if (known.length === 0)
    throw new WaybillError('usage', 'the configuration has no notifiers', {
      hint: 'docs/events.md shows how to write one',
    });
  return notifiersOf(config).filter(({ id }) => ids?.includes(id) ?? true);
}

async function test(
  { config, sink }: OpenNotifier,
  { context: { clock } }: CommandContext,
  signal: AbortSignal,
): Promise<Tested> {
  const event = eventOf(testOccurrence(config.id), newEventId(), clock.now());
  const started = clock.monotonic();
  try {
    const policy = { retries: 0, baseMs: 0, capMs: 0 };
    const delivery = await deliver(sink, event, { clock, policy, signal, stopping: signal });
    return { config, event, delivery, ms: Math.round(clock.monotonic() - started) };
  } finally {
    await sink.close();
  }
}

type UndeliveredOptions = OptionsFor<typeof undeliveredCommand>;

interface UndeliveredAnswer {
  notifier_id: string;
  configured: boolean;
  events: {
    event_id: string;
    type: string;
    timestamp: string;
    pipeline_id: string | null;
    destination_id: string | null;
    run_id: string | null;
    given_up_at: string;
    tries: number;
    reason: string;
  }[];
}

interface Redelivered {
  notifier_id: string;
  delivered: number;
  left: number;
  ended: 'all_tried' | 'failing' | 'time_over' | 'stopping';
  failed: { event_id: string; type: string; reason: string }[];
}

const timeoutMs = 60_000;
/**
 * The daemon sends events for 20 seconds. The last of them may be attempted four times, for up to a minute
 * each.
 */
const redeliveryTimeoutMs = 300_000;

/** Implements `waybill notify undelivered`. The exit code is always 0 if the list could be read. */
export async function listUndelivered(options: UndeliveredOptions, { output }: Io): Promise<number> {
  const operator = await openOperator(options, { command: 'waybill notify undelivered' });
  const notifiers: UndeliveredAnswer[] = [];
  for (const id of notifierIds(operator, options)) notifiers.push(await undeliveredOf(operator, id));
  output.result('notify-undelivered', { url: operator.url, notifiers }, () => {
    for (const { notifier_id: id, configured, events } of notifiers) {
      const more = configured ? '' : ', no longer configured';
      output.data(`${id}  ${events.length} undelivered${more}`);
      const rows = events.map((event) => [
        event.timestamp,
        event.event_id,
        event.type,
        subjectText(event),
        `${event.tries} tries: ${event.reason}`,
      ]);
      for (const row of columns(rows, '  ')) output.data(row);
    }
  });
  return 0;
}

/**
 * Implements `waybill notify redeliver`. The exit code is 0 if all events have been delivered, and 1
 * otherwise.
 */
export async function redeliverAll(options: UndeliveredOptions, { output }: Io): Promise<number> {
  const operator = await openOperator(options, { command: 'waybill notify redeliver' });
  const notifiers: Redelivered[] = [];
  for (const id of notifierIds(operator, options)) notifiers.push(await redelivered(operator, id));
  const isDone = notifiers.every(({ left }) => left === 0);
  output.result('notify-redeliver', { url: operator.url, notifiers }, () => {
    const { style } = output;
    const rows = notifiers.map(({ notifier_id: id, delivered, left, ended, failed }) => [
      left === 0 ? style.green('✓') : style.red('✗'),
      id,
      `${delivered} delivered, ${left} left${reasonText(ended, failed)}`,
    ]);
    for (const row of columns(rows)) output.data(row);
  });
  return isDone ? 0 : 1;
}

/** Returns the notifiers given on the command line. By default, returns all that are configured here. */
function notifierIds({ config }: Operator, { notifier }: UndeliveredOptions): string[] {
  const ids = notifier ?? config.notifiers.map(({ id }) => id);
  if (ids.length > 0) return ids;
  throw new WaybillError('usage', 'the configuration has no notifiers', {
    hint: 'name one that was removed with --notifier',
  });
}

function undeliveredOf({ ask }: Operator, id: string): Promise<UndeliveredAnswer> {
  const route = `v1/notifiers/${encodeURIComponent(id)}/undelivered`;
  return ask({ method: 'GET', route, timeoutMs }, isUndelivered);
}

/**
 * Sends requests until everything has been delivered. Each request only runs for a limited time, so it is
 * repeated as long as it makes progress.
 */
async function redelivered({ ask }: Operator, id: string): Promise<Redelivered> {
  const route = `v1/notifiers/${encodeURIComponent(id)}/redeliver`;
  let delivered = 0;
  for (;;) {
    const request = { method: 'POST', route, timeoutMs: redeliveryTimeoutMs } as const;
    const answer = await ask(request, isRedelivered);
    delivered += answer.delivered;
    if (answer.ended !== 'time_over' || answer.delivered === 0) return { ...answer, delivered };
  }
}

const reasons: Record<Redelivered['ended'], string> = {
  all_tried: '',
  failing: '; the receiver does not accept them',
  time_over: '; the time limit was reached, run this again',
  stopping: '; the daemon stops, or the notifier was removed',
};

function reasonText(ended: Redelivered['ended'], failed: Redelivered['failed']): string {
  const last = failed.at(-1);
  return reasons[ended] + (last === undefined ? '' : ` (${last.event_id}: ${last.reason})`);
}

function subjectText({
  pipeline_id: pipeline,
  destination_id: destination,
}: UndeliveredAnswer['events'][number]): string {
  return [pipeline, destination].filter((id) => id !== null).join('/');
}

function isUndelivered(body: unknown): body is UndeliveredAnswer {
  return isRecord(body) && typeof body['notifier_id'] === 'string' && Array.isArray(body['events']);
}

function isRedelivered(body: unknown): body is Redelivered {
  return isRecord(body) && typeof body['delivered'] === 'number' && Array.isArray(body['failed']);
}
