import { finding, type Finding } from '../finding.ts';
import type { Outcome } from './lane.ts';

/** A failed delivery as the warning that it is; null for one that succeeded. Pure. */
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
  const hint = gone ? '; remove the notifier, or have the receiver take events again' : '';
  const message = `notifier "${notifierId}": the event ${event.type} ${event.id}${about(event)} was not delivered${tried}: ${reason ?? 'unknown'}${hint}`;
  return finding('warning', 'event_not_delivered', message);
}

// A dead receiver makes as many warnings as there are events, and says the same in each.
const warningsOfEach = 10;

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
      if (count <= warningsOfEach) shown.push(warning);
    },
    warnings: () => [
      ...shown,
      ...[...counts]
        .filter(([, count]) => count > warningsOfEach)
        .map(([id, count]) =>
          finding(
            'warning',
            'event_not_delivered',
            `notifier "${id}": ${count - warningsOfEach} more events were not delivered`,
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
