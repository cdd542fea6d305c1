import type { Alert, Loadable, Row } from '../documents/rows.ts';
import { runWith } from './outlooks.ts';
import { runIdIn, type Statements, upsert } from './upsert.ts';

/**
 * Stores lists that are polled: alerts and stories. Whenever a list changes, its new content is stored as a
 * run. If it has not changed since the last run, only the time of that run is updated, so that it does not
 * become stale. A single CAP message creates a new run with the message and everything in the last run.
 */
type Alerts = Loadable & { family: 'alerts' };
type Stories = Loadable & { family: 'stories' };

export type PolledList = { family: 'alerts' } | { family: 'stories'; office: string };

export async function loadAlerts(statements: Statements, record: Alerts): Promise<number> {
  const of = (pick: (alert: Alert) => Row[]): Row[] => record.alerts.flatMap(pick);
  const keep = (table: string, key: readonly string[], rows: readonly Row[]): Promise<number> =>
    upsert(statements, { table, key, onConflict: 'keep' }, rows);
  const knowsKinds = await hasKinds(statements);
  const listed = record.alerts.flatMap((one) => (one.listed ? [one.alert.alert_id] : []));
  const added =
    (await keep(
      'alerts',
      ['alert_id'],
      of(({ alert }) => [alert]),
    )) +
    // Replaces the row, since we may not have known all of the SAME codes when the alert first arrived.
    (await upsert(
      statements,
      { table: 'alert_areas', key: ['ugc', 'alert_id'], onConflict: 'replace' },
      of(({ areas }) =>
        knowsKinds ? areas : areas.map(({ alert_id, ugc, same }) => ({ alert_id, ugc, same })),
      ),
    )) +
    (await keep(
      'alert_references',
      ['alert_id', 'ref_id'],
      of(({ references }) => references),
    ));
  if (!record.isWholeList) return added + (await addMessage(statements, record, listed));
  const newest = await newestRun(statements, { family: 'alerts' });
  if (newest !== null && (await holdsMembers(statements, newest, listed))) {
    await statements.query(
      `update alert_runs set fetched_at = greatest(fetched_at, $1::timestamptz),
         source_updated_at = greatest(source_updated_at, $2::timestamptz) where run_id = $3`,
      [record.fetchedAt, record.sourceUpdatedAt, newest],
    );
    return added;
  }
  const run = { fetched_at: record.fetchedAt, source_updated_at: record.sourceUpdatedAt };
  const { run_id, isNew } = await runWith(statements, 'alert_runs', run);
  const rows = [...new Set(listed)].map((alert_id) => ({ run_id, alert_id }));
  return added + Number(isNew) + (await keep('alert_run_members', ['run_id', 'alert_id'], rows));
}

/**
 * Adds a message to the list that was current when it was sent, and to the newest list if that is a later
 * one. Messages may arrive in any order: an alert is not added if it has already been superseded by an
 * Update, or if a Cancel has covered all of its zones. An exercise never replaces a real warning. Returns the
 * number of rows that were added.
 */
async function addMessage(
  statements: Statements,
  { fetchedAt }: Alerts,
  listed: readonly string[],
): Promise<number> {
  // If a message was sent in the future, treat it as sent now.
  const lists = await statements.query(
    `with message as (select least($1::timestamptz, now()) as at)
     select (select run_id from alert_runs where fetched_at <= at order by fetched_at desc, run_id desc limit 1) as run_id,
       at::text as at from message
     union all (select run_id, fetched_at::text from alert_runs, message where fetched_at > at
       order by fetched_at desc, run_id desc limit 1)`,
    [fetchedAt],
  );
  let added = 0;
  for (const list of lists) {
    const run = list['run_id'] === null ? null : runIdIn(list);
    added += await addToList(statements, { run, at: list['at'] }, listed);
  }
  return added;
}

async function addToList(
  statements: Statements,
  { run, at }: { run: string | null; at: unknown },
  listed: readonly string[],
): Promise<number> {
  const found = await statements.query(
    `select alert_id from alerts present
     where (alert_id in (select alert_id from alert_run_members where run_id = $1)
         or alert_id in (select jsonb_array_elements_text($2::text::jsonb)))
       and coalesce(ends_at, expires_at) > $3::timestamptz and not exists (${laterMessage})`,
    [run, JSON.stringify(listed), at],
  );
  const members = found.map(({ alert_id }) => String(alert_id));
  if (run !== null && (await holdsMembers(statements, run, members))) {
    await statements.query(
      'update alert_runs set fetched_at = greatest(fetched_at, $1::timestamptz) where run_id = $2',
      [at, run],
    );
    return 0;
  }
  const [made] = await statements.query(
    'insert into alert_runs (fetched_at) values ($1::timestamptz) returning run_id',
    [at],
  );
  const rows = members.map((alert_id) => ({ run_id: runIdIn(made), alert_id }));
  const to = { table: 'alert_run_members', key: ['run_id', 'alert_id'], onConflict: 'keep' } as const;
  return 1 + (await upsert(statements, to, rows));
}

/**
 * Returns an SQL expression for the identifier of an alert's message. If a message contains several alerts,
 * their ids end in `#2`, `#3` and so on.
 */
function messageOf(table: string): string {
  return `regexp_replace(${table}.alert_id, '#[0-9]+$', '')`;
}

/**
 * Finds an Update of the alert `present`, or a Cancel of all its zones. A Cancel without zones covers all of
 * them.
 */
const laterMessage = `select from alert_references reference join alerts later on later.alert_id = reference.alert_id
  where reference.ref_id in (present.alert_id, ${messageOf('present')})
    and ${messageOf('later')} <> ${messageOf('present')} and later.status = present.status
    and (later.message_type = 'Update' or (later.message_type = 'Cancel' and (
      not exists (select from alert_areas where alert_id = later.alert_id)
      or not exists (select from alert_areas own where own.alert_id = present.alert_id and not exists (
        select from alert_areas canceled where canceled.alert_id = later.alert_id and canceled.ugc = own.ugc)))))`;

/** Tables created by an earlier version do not have this column. */
async function hasKinds(statements: Statements): Promise<boolean> {
  const found = await statements.query(
    "select 1 as one from pg_attribute where attrelid = 'alert_areas'::regclass and attname = 'kind'",
    [],
  );
  return found.length > 0;
}

export async function loadStories(statements: Statements, record: Stories): Promise<number> {
  const { office, fetchedAt: fetched_at, stories } = record;
  const newest = await newestRun(statements, { family: 'stories', office });
  if (newest !== null && (await holdsStories(statements, newest, stories))) {
    await confirm(statements, { family: 'stories', office }, fetched_at);
    return 0;
  }
  const { run_id, isNew } = await runWith(statements, 'weather_story_runs', { office, fetched_at });
  const rows = stories.map((row) => ({ run_id, ...row }));
  const to = { table: 'weather_stories', key: ['run_id', 'position'], onConflict: 'keep' } as const;
  return Number(isNew) + (await upsert(statements, to, rows));
}

/**
 * Sets the time of the newest run to `at` after the server has confirmed that nothing has changed. Does
 * nothing if there is no run.
 */
export async function confirm(statements: Statements, polled: PolledList, at: string): Promise<void> {
  const newest = await newestRun(statements, polled);
  if (newest === null) return;
  const table = polled.family === 'alerts' ? 'alert_runs' : 'weather_story_runs';
  await statements.query(
    `update ${table} set fetched_at = greatest(fetched_at, $1::timestamptz) where run_id = $2`,
    [at, newest],
  );
}

async function newestRun(statements: Statements, polled: PolledList): Promise<string | null> {
  const [found] =
    polled.family === 'alerts'
      ? await statements.query(
          'select run_id from alert_runs order by fetched_at desc, run_id desc limit 1',
          [],
        )
      : await statements.query(
          'select run_id from weather_story_runs where office = $1 order by fetched_at desc, run_id desc limit 1',
          [polled.office],
        );
  return found === undefined ? null : runIdIn(found);
}

async function holdsMembers(
  statements: Statements,
  run_id: string,
  members: readonly string[],
): Promise<boolean> {
  const [found] = await statements.query(
    `select array(select alert_id from alert_run_members where run_id = $1 order by 1)
       = array(select distinct value from jsonb_array_elements_text($2::text::jsonb) order by 1) as same`,
    [run_id, JSON.stringify(members)],
  );
  return found?.['same'] === true;
}

async function holdsStories(
  statements: Statements,
  run_id: string,
  stories: readonly Row[],
): Promise<boolean> {
  const [found] = await statements.query(
    `with present as (select to_jsonb(story) - 'run_id' as story from weather_stories story where run_id = $1),
          found as (select to_jsonb(story) - 'run_id' as story
            from jsonb_populate_recordset(null::weather_stories, $2::text::jsonb) story)
     select not exists (select from present where story not in (select story from found))
        and not exists (select from found where story not in (select story from present)) as same`,
    [run_id, JSON.stringify(stories)],
  );
  return found?.['same'] === true;
}
