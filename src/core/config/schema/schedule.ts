import { parseCron, parseTimeZone } from '../schedule/cron.ts';
import { boolean, choice, duration, text } from '../../lib/settings/kinds.ts';

/** What starts runs of a pipeline by itself; `schedule-relations.ts` says which of it goes together. */
export const scheduleSettings = {
  schedule: text(
    'five fields of cron (minute, hour, day of month, month, day of week) such as "*/15 * * * *", or @hourly, @daily, @weekly, @monthly or @yearly',
    'cron pattern',
    parseCron,
  )
    .description(
      'When runs of this pipeline start by themselves, if it has a source of its own: a pattern of cron. See docs/schedules.md.',
    )
    .example('*/15 * * * *'),
  timezone: text(
    'the IANA name of a time zone such as Europe/Berlin, America/New_York or UTC',
    'time zone',
    parseTimeZone,
  )
    .default('UTC')
    .description('Time zone of the schedule.')
    .example('Europe/Berlin'),
  catch_up: choice('none', 'once')
    .default('none')
    .description(
      'What becomes of ticks that nobody could start, because all daemons were down: nothing, or one run for all of them together.',
    ),
  jitter: duration({ atLeast: '0s', atMost: '1h' })
    .default('0s')
    .description(
      'By how much, at most, a run begins later than its tick, so that not all of them begin at once: drawn for each tick, the same on every host, and never later than the next tick.',
    )
    .example('30s'),
  watch: boolean()
    .default(false)
    .description(
      'Whether a change of the source starts a run, if the source is a directory of this machine.',
    ),
  settle: duration({ atLeast: '100ms', atMost: '1h' })
    .default('2s')
    .description('How long a source that is watched must be quiet before the run starts.')
    .example('10s'),
};
