import { BrokenDocument } from '../documents/faults.ts';
import type { Loadable, Row } from '../documents/rows.ts';
import { loadPlaces } from './load-places.ts';
import { loadOutlook, loadOutlookDiscussion } from './outlooks.ts';
import { loadAlerts, loadStories } from './polls.ts';
import { runOf, withRun } from './runs.ts';
import type { Statements } from './target.ts';
import { movedForward, same, upsert, type Upsert } from './upsert.ts';

type Observed = Loadable & { family: 'observation' };

/** Writes one record, within a transaction. Returns how many rows were inserted or changed. */
export async function loadRecord(statements: Statements, record: Loadable): Promise<number> {
  const keep = (table: string, key: readonly string[], rows: readonly Row[]): Promise<number> =>
    upsert(statements, { table, key, onConflict: 'keep' }, rows);
  switch (record.family) {
    case 'observation':
      return loadObservation(statements, record);
    case 'alerts':
      return loadAlerts(statements, record);
    case 'stories':
      return loadStories(statements, record);
    case 'forecast': {
      await upsert(statements, { table: 'locations', key: ['location_id'], onConflict: 'replace' }, [
        record.location,
      ]);
      const run_id = await runOf(statements, 'forecast_runs', record.run, [
        'kind',
        'location_id',
        'generated_at',
      ]);
      return keep('forecast_periods', ['run_id', 'number'], withRun(run_id, record.periods));
    }
    case 'forecast_discussion': {
      const added = await keep('forecast_discussions', ['product_id'], [record.discussion]);
      const key = ['product_id', 'position'];
      return added + (await keep('forecast_discussion_sections', key, record.sections));
    }
    case 'outlook':
      return loadOutlook(statements, record);
    case 'outlook_discussion':
      return loadOutlookDiscussion(statements, record);
    case 'places':
      return loadPlaces(statements, record);
  }
}

const keyOfObservation = ['station_id', 'observed_at'];

/** What a station corrects later takes the place of what it said first. */
async function loadObservation(
  statements: Statements,
  { station, observation, weather, clouds }: Observed,
): Promise<number> {
  if (station === null) await requireStation(statements, observation['station_id']);
  else await loadStation(statements, station);
  const to: Upsert = { table: 'observations', key: keyOfObservation, onConflict: 'replace' };
  const changed = await upsert(statements, to, [observation]);
  const parts =
    (await replaceParts(statements, 'observation_weather', observation, weather)) +
    (await replaceParts(statements, 'observation_clouds', observation, clouds));
  if (changed === 0 && parts > 0)
    await statements.query(
      `update observations as present set received_at = ${movedForward('$3::timestamptz')} where ${same(keyOfObservation)}`,
      [...keyOf(observation), observation['received_at']],
    );
  return changed + parts;
}

async function requireStation(statements: Statements, id: unknown): Promise<void> {
  const found = await statements.query('select 1 as one from stations where station_id = $1', [id]);
  if (found.length === 0)
    throw new BrokenDocument(
      `geometry.coordinates are missing, and the station ${JSON.stringify(id)} is not known`,
    );
}

/**
 * An observation brings its station along where that is not known. One that is known stays as a list of
 * stations has it: in observations its coordinates are rounded, so that they count only if it is elsewhere.
 */
async function loadStation(statements: Statements, station: Row): Promise<void> {
  const columns = Object.keys(station);
  const elsewhere = `(abs(present.latitude_deg - excluded.latitude_deg) > ${roundedDeg}
    or abs(present.longitude_deg - excluded.longitude_deg) > ${roundedDeg})`;
  const placed = ['latitude_deg', 'longitude_deg', 'time_zone'].map(
    (column) => `${column} = case when ${elsewhere} then excluded.${column} else present.${column} end`,
  );
  const isMeasured = 'present.elevation_m is null and excluded.elevation_m is not null';
  const isBetterNamed = 'present.name = present.station_id and excluded.name <> excluded.station_id';
  await statements.query(
    `insert into stations as present (${columns.join(', ')})
     select ${columns.join(', ')} from jsonb_populate_recordset(null::stations, $1::text::jsonb)
     on conflict (station_id) do update set ${placed.join(', ')},
       elevation_m = case when ${elsewhere} or (${isMeasured}) then excluded.elevation_m else present.elevation_m end,
       name = case when ${isBetterNamed} then excluded.name else present.name end
     where ${elsewhere} or (${isMeasured}) or (${isBetterNamed})`,
    [JSON.stringify([station])],
  );
}

/** More than the rounding of coordinates, and less than a station ever moved. */
const roundedDeg = 0.05;

async function replaceParts(
  statements: Statements,
  table: string,
  observation: Row,
  rows: readonly Row[],
): Promise<number> {
  const removed = await statements.query(
    `delete from ${table} where ${same(keyOfObservation)} and position > $3 returning 1 as one`,
    [...keyOf(observation), rows.length],
  );
  const to: Upsert = { table, key: [...keyOfObservation, 'position'], onConflict: 'replace' };
  return removed.length + (await upsert(statements, to, rows));
}

function keyOf(observation: Row): unknown[] {
  return keyOfObservation.map((column) => observation[column]);
}
