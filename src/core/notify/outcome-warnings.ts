import { finding, type Finding } from '../lib/errors.ts';
import type { Outcome } from './lane.ts';

/** The warning for a failed delivery; null if it succeeded. Pure. */
export function outcomeWarning({
  delivered,
  reason,
  tries,
  notifierId,
  gone,
  event,
}: Outcome): Finding | null {
  if (delivered) return null;
  const tried = tries === 0 ? '' : tries === 1 ? ' in one try' : ` in ${tries} tries`;
  const hint = gone ? '; remove the notifier, or make the receiver accept events again' : '';
  const message = `notifier "${notifierId}": the event ${event.type} ${event.id}${about(event)} was not delivered${tried}: ${reason ?? 'unknown'}${hint}`;
  return finding('warning', 'event_not_delivered', message);
}

// A dead receiver causes one warning per event, all with the same text.
const maxWarningsPerNotifier = 10;

/** Collects the warnings of a run: the first of each notifier in full, the rest counted. */
export function collectWarnings(): { onOutcome: (outcome: Outcome) => void; warnings: () => Finding[] } {
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

function about({ data }: Outcome['event']): string {
  if (!('pipeline_id' in data)) return '';
  return data.destination_id === null
    ? ` of pipeline "${data.pipeline_id}"`
    : ` of ${data.pipeline_id}/${data.destination_id}`;
}
