import type { Alert, Loadable, OutlookRun, Row } from './rows.ts';

/** A connection that may write, of either driver. */
export interface Target {
  query(text: string, values: unknown[]): Promise<Record<string, unknown>[]>;
  /** Several statements without values. */
  run(text: string): Promise<void>;
  close(): Promise<void>;
}

/**
 * Writes what a file held, in one transaction. What is there already stays as it is or is replaced by the
 * same: loading twice changes nothing.
 */
export async function load(target: Target, records: readonly Loadable[]): Promise<void> {
  await target.run('begin');
  try {
    for (const record of records) await loadOne(target, record);
    await target.run('commit');
  } catch (error) {
    await target.run('rollback');
    throw error;
  }
}

async function loadOne(target: Target, record: Loadable): Promise<void> {
  switch (record.family) {
    case 'observation':
      await insert(target, 'stations', [record.station], 'station_id', 'update');
      await insert(target, 'observations', [record.observation], 'station_id, observed_at', 'update');
      await insert(target, 'observation_weather', record.weather, 'station_id, observed_at, position');
      return insert(target, 'observation_clouds', record.clouds, 'station_id, observed_at, position');
    case 'alerts':
      return loadAlerts(target, record);
    case 'forecast': {
      const run_id = await runOf(target, 'forecast_runs', record.run, 'kind, location_id, generated_at');
      return insert(
        target,
        'forecast_periods',
        record.periods.map((row) => ({ run_id, ...row })),
        'run_id, number',
      );
    }
    case 'forecast_discussion':
      await insert(target, 'forecast_discussions', [record.discussion], 'product_id');
      return insert(target, 'forecast_discussion_sections', record.sections, 'product_id, position');
    case 'stories': {
      const { office, fetchedAt: fetched_at } = record;
      const run_id = await newRun(target, 'weather_story_runs', { office, fetched_at });
      return insert(
        target,
        'weather_stories',
        record.stories.map((row) => ({ run_id, ...row })),
        'run_id, position',
      );
    }
    case 'outlook': {
      const run_id = await runOf(target, 'outlook_runs', received(record.run), 'day, issued_at, valid_from');
      // Only some of the files of a run name the forecaster.
      await target.query('update outlook_runs set forecaster = coalesce(forecaster, $1) where run_id = $2', [
        record.run.forecaster,
        run_id,
      ]);
      return insert(
        target,
        'outlooks',
        record.areas.map((row) => ({ run_id, ...row })),
        'run_id, hazard, label, part',
        'update',
      );
    }
    case 'outlook_discussion': {
      const run_id = await runOfWindow(target, record.run);
      return insert(target, 'outlook_discussions', [{ run_id, ...record.discussion }], 'run_id, product_id');
    }
  }
}

async function loadAlerts(target: Target, record: Loadable & { family: 'alerts' }): Promise<void> {
  const of = <T>(pick: (alert: Alert) => T[]): T[] => record.alerts.flatMap(pick);
  const run_id = await newRun(target, 'alert_runs', {
    fetched_at: record.fetchedAt,
    source_updated_at: record.sourceUpdatedAt,
  });
  await insert(
    target,
    'alerts',
    of(({ alert }) => [alert]),
    'alert_id',
  );
  await insert(
    target,
    'alert_areas',
    of(({ areas }) => areas),
    'ugc, alert_id',
  );
  await insert(
    target,
    'alert_references',
    of(({ references }) => references),
    'alert_id, ref_id',
  );
  const members = of(({ alert, listed }) => (listed ? [{ run_id, alert_id: alert.alert_id }] : []));
  await insert(target, 'alert_run_members', members, 'run_id, alert_id');
}

async function insert(
  target: Target,
  table: string,
  rows: readonly Row[],
  key: string,
  onConflict: 'keep' | 'update' = 'keep',
): Promise<void> {
  for (const row of rows) {
    const columns = Object.keys(row);
    const updates = columns.map((column) => `${column} = excluded.${column}`).join(', ');
    const action = onConflict === 'keep' ? 'nothing' : `update set ${updates}`;
    await target.query(
      `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => `$${index + 1}`).join(', ')}) on conflict (${key}) do ${action}`,
      columns.map((column) => row[column]),
    );
  }
}

/** The id of the run with this key, made where it is not there. */
async function runOf(target: Target, table: string, row: Row, key: string): Promise<number> {
  await insert(target, table, [row], key);
  const keys = key.split(', ');
  return idOf(target, table, Object.fromEntries(keys.map((column) => [column, row[column] ?? null])));
}

/** For runs whose table knows no key: the one with all these values. */
async function newRun(target: Target, table: string, row: Row): Promise<number> {
  const columns = Object.keys(row);
  const found = await target.query(`select run_id from ${table} where ${same(columns)}`, Object.values(row));
  if (found.length > 0) return Number(found[0]?.['run_id']);
  await target.query(
    `insert into ${table} (${columns.join(', ')}) values (${columns.map((_, index) => `$${index + 1}`).join(', ')})`,
    Object.values(row),
  );
  return idOf(target, table, row);
}

/** A discussion belongs to the areas of its window, although they are issued a minute apart. */
async function runOfWindow(target: Target, run: OutlookRun): Promise<number> {
  const { day, valid_from, valid_until } = run;
  const window = { day, valid_from, valid_until };
  const [found] = await target.query(
    `select run_id from outlook_runs where ${same(Object.keys(window))} order by issued_at desc, run_id desc limit 1`,
    Object.values(window),
  );
  return found === undefined
    ? runOf(target, 'outlook_runs', received(run), 'day, issued_at, valid_from')
    : Number(found['run_id']);
}

function received(run: OutlookRun): Row {
  return { ...run, received_at: run.issued_at };
}

async function idOf(target: Target, table: string, key: Row): Promise<number> {
  const [row] = await target.query(
    `select run_id from ${table} where ${same(Object.keys(key))}`,
    Object.values(key),
  );
  return Number(row?.['run_id']);
}

function same(columns: readonly string[]): string {
  return columns.map((column, index) => `${column} is not distinct from $${index + 1}`).join(' and ');
}
