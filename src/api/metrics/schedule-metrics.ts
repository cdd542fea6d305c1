import type { ScheduleObserver } from '../../workers/schedule/schedule-observer.ts';
import type { Definer } from './definer.ts';

/** What is counted of schedules and of sources that are watched. */
export function scheduleMetrics({ counter, gauge }: Definer): ScheduleObserver {
  const triggers = counter(
    'waybill_triggers_total',
    'Ticks of schedules and changes of watched sources, by what became of them.',
    ['pipeline', 'kind', 'outcome'],
  );
  const missed = counter('waybill_schedule_missed_total', 'Ticks of schedules that started no run.', [
    'pipeline',
    'reason',
  ]);
  const ignored = counter(
    'waybill_schedule_future_ticks_total',
    'Decided ticks that were ignored because they are in the future: the clock was ahead when they were decided.',
    ['pipeline'],
  );
  const polled = gauge(
    'waybill_watch_polled',
    '1 if a source that is to be watched cannot be and is polled, else 0.',
    ['pipeline'],
  );
  return {
    begun: ({ pipelineId: pipeline, kind }) => {
      for (const outcome of ['started', 'coalesced']) triggers.inc({ pipeline, kind, outcome }, 0);
      if (kind === 'schedule') ignored.inc({ pipeline }, 0);
      if (kind === 'schedule') for (const reason of ['down', 'paused']) missed.inc({ pipeline, reason }, 0);
    },
    decided: ({ pipelineId, kind, outcome }) => triggers.inc({ pipeline: pipelineId, kind, outcome }),
    missed: ({ pipelineId, reason, count }) => missed.inc({ pipeline: pipelineId, reason }, count),
    ignored: (pipeline) => ignored.inc({ pipeline }),
    polled: (pipeline, isPolled) => polled.set({ pipeline }, isPolled ? 1 : 0),
  };
}
