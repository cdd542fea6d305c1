import { type Finding, finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import { traceFields } from '../tracing/trace-context.ts';
import type { DeliveryOutcome } from './delivery-queue.ts';

/** Returns a warning about a delivery that failed, or null if it succeeded. */
export function outcomeWarning({
  delivered,
  reason,
  tries,
  notifierId,
  gone,
  event,
}: DeliveryOutcome): Finding | null {
  if (delivered) return null;
  const triesText = tries === 0 ? '' : tries === 1 ? ' in one try' : ` in ${tries} tries`;
  const hint = gone ? '; remove the notifier, or make the receiver accept events again' : '';
  const message = `notifier "${notifierId}": the event ${event.type} ${event.id}${about(event)} was not delivered${triesText}: ${reason ?? 'unknown'}${hint}`;
  return finding('warning', 'event_not_delivered', message);
}

export function logOutcome(outcome: DeliveryOutcome, log: Log): void {
  const { event, notifierId, tries } = outcome;
  const fields = {
    notifier: notifierId,
    event_id: event.id,
    event_type: event.type,
    tries,
    ...traceFields(outcome),
    ...('run_id' in event.data ? { run_id: event.data.run_id, pipeline_id: event.data.pipeline_id } : {}),
  };
  const warning = outcomeWarning(outcome);
  if (warning === null) log.debug(fields, 'event delivered');
  else log.warn({ ...fields, code: warning.code }, warning.message);
}

// If a receiver does not respond, there is a warning for each event, and they all say the same.
const maxWarningsPerNotifier = 10;

/**
 * Collects the warnings of a run. For each notifier, the first few are shown in full, and the others are only
 * counted.
 */
export function collectWarnings(): {
  onOutcome: (outcome: DeliveryOutcome) => void;
  warnings: () => Finding[];
} {
  const shown: Finding[] = [];
  const counts = new Map<string, number>();
  return {
    onOutcome(outcome) {
      const warning = outcomeWarning(outcome);
      if (warning === null) return;
      const count = (counts.get(outcome.notifierId) ?? 0) + 1;
      counts.set(outcome.notifierId, count);
      if (count <= maxWarningsPerNotifier) shown.push(warning);
    },
    warnings: () => [
      ...shown,
      ...[...counts]
        .filter(([, count]) => count > maxWarningsPerNotifier)
        .map(([id, count]) =>
          finding(
            'warning',
            'event_not_delivered',
            `notifier "${id}": ${count - maxWarningsPerNotifier} more events were not delivered`,
          ),
        ),
    ],
  };
}

function about({ data }: DeliveryOutcome['event']): string {
  if (!('pipeline_id' in data)) return '';
  return data.destination_id === null
    ? ` of pipeline "${data.pipeline_id}"`
    : ` of ${data.pipeline_id}/${data.destination_id}`;
}
