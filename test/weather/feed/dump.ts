import type { WritableDatabase } from '../../../src/weather/feed/tables/upsert.ts';

/** The runs that rows of other tables belong to. Their ids are specific to the database. */
const runsOf: Readonly<Record<string, string>> = {
  alert_run_members: 'alert_runs',
  forecast_periods: 'forecast_runs',
  weather_stories: 'weather_story_runs',
  outlooks: 'outlook_runs',
  outlook_discussions: 'outlook_runs',
};

/** Every row of every table as text, in a fixed order. A run replaces its id. */
export async function dump(target: WritableDatabase): Promise<Record<string, string[]>> {
  const tables = await target.query(
    "select table_name from information_schema.tables where table_schema = 'weather' order by 1",
    [],
  );
  const dumped: Record<string, string[]> = {};
  for (const { table_name: name } of tables) {
    const table = String(name);
    const runs = runsOf[table];
    const row = "to_jsonb(row) - 'run_id' - 'loaded_at'";
    const text =
      runs === undefined
        ? `select (${row})::text as text from ${table} row`
        : `select (${row} || jsonb_build_object('run', to_jsonb(run) - 'run_id'))::text as text
           from ${table} row join ${runs} run using (run_id)`;
    const rows = await target.query(`${text} order by 1`, []);
    dumped[table] = rows.map((each) => String(each['text'])).sort();
  }
  return dumped;
}
