import type { Clock } from '../lib/clock.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { Finding } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { Tracer } from '../tracing/span.ts';
import { traceFields } from '../tracing/traceparent.ts';
import type { Outcome, Postponed } from './lane.ts';
import { createNotifier, type Notifier } from './notifier.ts';
import { openNotifiers } from './open-notifiers.ts';
import { outcomeWarning } from './outcome-warnings.ts';
import type { Outbox } from './outbox.ts';
import type { NotifierConfig } from './sink-kinds.ts';
import type { UndeliveredEvents } from './undelivered.ts';

/**
 * The notifier of a long-running process, which logs the outcome of each delivery. Throws like
 * `openNotifiers`.
 */
export async function loggedNotifier(
  configs: readonly NotifierConfig[],
  context: {
    clock: Clock;
    log: Log;
    secrets: Secrets;
    hurry: AbortSignal;
    /** Creates the spans of deliveries. Without it, nothing is traced. */
    tracer?: Tracer;
    /** Stores events beyond the life of the process. Default: none. */
    outbox?: Outbox;
    /** Stores the events whose delivery failed. Default: in memory. */
    undelivered?: UndeliveredEvents;
    /** Called after the outcome was logged. */
    onOutcome: (outcome: Outcome) => void;
    /** Called for each try that will be retried. */
    onPostponed?: (postponed: Postponed) => void;
  },
): Promise<{ notifier: Notifier; warnings: Finding[] }> {
  const { notifiers, warnings } = await openNotifiers(configs, context);
  const onOutcome = (outcome: Outcome): void => {
    logOutcome(outcome, context.log);
    context.onOutcome(outcome);
  };
  return { notifier: createNotifier({ ...context, notifiers, onOutcome }), warnings };
}

function logOutcome(outcome: Outcome, log: Log): void {
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
