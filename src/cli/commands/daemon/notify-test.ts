import type { NotifierConfig } from '../../../core/notify/sink-kinds.ts';
import { notifiersOf } from '../../../core/config/secret-references.ts';
import { WaybillError } from '../../../core/lib/errors.ts';
import { deliver, type Delivery } from '../../../core/notify/deliver.ts';
import { eventOf, type Event } from '../../../core/notify/event.ts';
import type { OpenNotifier } from '../../../core/notify/lane.ts';
import { newEventId } from '../../../core/notify/event-id.ts';
import { testOccurrence } from '../../../core/publish/results/occurrences.ts';
import { openNotifiers } from '../../../core/notify/open-notifiers.ts';
import type { ConfiguredOptions } from '../../setup/options.ts';
import { columns, makeOutput } from '../../output/output.ts';
import { setUp, unknownName, type SetUp } from '../../setup/set-up.ts';
import { untilStopped } from '../../process/stop-signal.ts';

export type NotifyTestOptions = ConfiguredOptions & { notifier?: string[] };

interface Tested {
  config: NotifierConfig;
  event: Event;
  delivery: Delivery;
  ms: number;
}

/**
 * `waybill notify test`: one try for each notifier, so that the answer comes soon, whatever events the
 * notifier is subscribed to.
 */
export async function notifyTest(options: NotifyTestOptions): Promise<number> {
  const output = makeOutput({ json: options.format === 'json', color: options.color });
  return untilStopped(async (signal) => {
    const prepared = await setUp({ ...options, output, signal, pipelineIds: [] });
    const configs = chosen(prepared, options.notifier);
    const { notifiers, warnings } = await openNotifiers(configs, prepared.context);
    const tested = await Promise.all(notifiers.map(async (notifier) => test(notifier, prepared, signal)));
    const all = [...prepared.warnings, ...warnings];
    const delivered = tested.every(({ delivery }) => delivery.delivered);
    if (output.isJson)
      output.json('notify-test', {
        delivered,
        notifiers: tested.map(({ config, event, delivery, ms }) => ({
          notifierId: config.id,
          kind: config.kind,
          eventId: event.id,
          delivered: delivery.delivered,
          reason: delivery.reason,
          ms,
        })),
        warnings: all,
      });
    else {
      for (const warning of all) output.warn(warning);
      const { style } = output;
      const rows = tested.map(({ config, delivery, ms }) => [
        delivery.delivered ? style.green('✓') : style.red('✗'),
        config.id,
        config.kind,
        delivery.delivered ? `delivered in ${ms} ms` : `not delivered: ${delivery.reason ?? ''}`,
      ]);
      for (const line of columns(rows)) output.data(line);
    }
    return delivered ? 0 : 1;
  });
}

function chosen({ config }: SetUp, ids: readonly string[] | undefined): NotifierConfig[] {
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
  { context: { clock } }: SetUp,
  signal: AbortSignal,
): Promise<Tested> {
  const event = eventOf(testOccurrence(config.id), newEventId(), clock.now());
  const started = clock.monotonic();
  try {
    const policy = { retries: 0, baseMs: 0, capMs: 0 };
    const delivery = await deliver(sink, event, { clock, policy, signal, hurry: signal });
    return { config, event, delivery, ms: Math.round(clock.monotonic() - started) };
  } finally {
    await sink.close();
  }
}
