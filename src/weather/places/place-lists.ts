import { getTableColumns, sql } from 'drizzle-orm';
import { doublePrecision, jsonb, pgTable, text } from 'drizzle-orm/pg-core';
import type { Clock } from '../../core/lib/clock.ts';
import {
  type FieldCheck,
  type NoteRejection,
  numberCheck,
  type Rejection,
  timeZoneCheck,
} from '../database/cleaner.ts';
import type { Queries, WeatherDatabase } from '../database/database.ts';
import { placesRequired } from '../database/database-errors.ts';
import type { Place, PlaceIndex } from './place-index.ts';

/** The tables of places and their outlines. */

export const stations = pgTable('stations', {
  stationId: text('station_id').notNull(),
  name: text('name').notNull(),
  latitudeDeg: doublePrecision('latitude_deg').notNull(),
  longitudeDeg: doublePrecision('longitude_deg').notNull(),
  elevationM: doublePrecision('elevation_m'),
  timeZone: text('time_zone').notNull(),
  state: text('state'),
});
/** Grid cells that have forecasts. */
export const locations = pgTable('locations', {
  locationId: text('location_id').notNull(),
  name: text('name'),
  latitudeDeg: doublePrecision('latitude_deg').notNull(),
  longitudeDeg: doublePrecision('longitude_deg').notNull(),
  timeZone: text('time_zone'),
  state: text('state'),
});
export const offices = pgTable('offices', {
  office: text('office').notNull(),
  name: text('name'),
  latitudeDeg: doublePrecision('latitude_deg').notNull(),
  longitudeDeg: doublePrecision('longitude_deg').notNull(),
  timeZone: text('time_zone'),
  state: text('state'),
});
/** Outlines of counties, and of public, marine and offshore zones. */
export const zones = pgTable('zones', {
  ugc: text('ugc').notNull(),
  name: text('name'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});
/** Outlines of fire weather zones. They have the same codes as public zones. */
export const fireZones = pgTable('fire_zones', {
  ugc: text('ugc').notNull(),
  name: text('name'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});

/** All places of one kind, and the invalid values that were found. */
interface PlaceList {
  index: PlaceIndex;
  rejected: readonly Rejection[];
}

export type PlaceKind = 'stations' | 'locations' | 'offices';

/**
 * All places in the database. They are kept in memory, because there are not many, they rarely change, and
 * most searches are by distance. After `freshMs`, a list is checked, and loaded again if it has changed.
 * Throws the database's errors. If a table or column is missing, throws `schema_mismatch` with its name.
 */
export type PlaceLists = Readonly<Record<PlaceKind, () => Promise<PlaceList>>>;

const freshMs = 5000;

export function openPlaceLists(database: WeatherDatabase, clock: Clock): PlaceLists {
  return {
    stations: cached(database, clock, 'stations'),
    locations: cached(database, clock, 'locations'),
    offices: cached(database, clock, 'offices'),
  };
}

function cached(database: WeatherDatabase, clock: Clock, kind: PlaceKind): () => Promise<PlaceList> {
  let known: { version: string; list: PlaceList } | null = null;
  let lookedAt = -Infinity;
  let inFlight: Promise<PlaceList> | null = null;
  const look = async (): Promise<PlaceList> => {
    const now = clock.monotonic();
    const found = await database
      .snapshot(async (queries) => {
        const [row] = await versionOf(queries, kind);
        const version = row?.version ?? '';
        return { version, rows: version === known?.version ? null : await selects[kind](queries) };
      })
      .catch((error: unknown) => {
        throw placesRequired(error);
      });
    if (known === null || found.rows !== null)
      known = { version: found.version, list: await listOf(kind, found.rows ?? []) };
    lookedAt = now;
    return known.list;
  };
  return () => {
    if (known !== null && clock.monotonic() - lookedAt < freshMs) return Promise.resolve(known.list);
    inFlight ??= look().finally(() => (inFlight = null));
    return inFlight;
  };
}

const tables = { stations, locations, offices };

/** Returns a value that changes whenever a row is added, changed or removed. */
function versionOf(queries: Queries, kind: PlaceKind): PromiseLike<{ version: string }[]> {
  const table = tables[kind];
  const version = sql<string>`count(*) || ' ' || coalesce(sum(hashtextextended(${table}::text, 0)), 0)`;
  return queries.select({ version }).from(table);
}

interface PlaceRow {
  id: string;
  name: string | null;
  latitudeDeg: number;
  longitudeDeg: number;
  elevationM: number | null;
  timeZone: string | null;
  state: string | null;
}

const none = sql<null>`null`;
const selects: Readonly<Record<PlaceKind, (queries: Queries) => PromiseLike<PlaceRow[]>>> = {
  stations: (queries) => {
    const { stationId: id, ...columns } = getTableColumns(stations);
    return queries.select({ id, ...columns }).from(stations);
  },
  locations: (queries) => {
    const { locationId: id, ...columns } = getTableColumns(locations);
    return queries.select({ id, ...columns, elevationM: none }).from(locations);
  },
  offices: (queries) => {
    const { office: id, ...columns } = getTableColumns(offices);
    return queries.select({ id, ...columns, elevationM: none }).from(offices);
  },
};

async function listOf(kind: PlaceKind, rows: readonly PlaceRow[]): Promise<PlaceList> {
  const rejected: Rejection[] = [];
  const places = rows.flatMap((row) => cleanPlace(kind, row, (each) => rejected.push(each)) ?? []);
  // Loaded only when needed, because most processes never look up a place.
  const { placeIndex } = await import('./place-index.ts');
  return { index: placeIndex(places), rejected };
}

const latitudeCheck = numberCheck('latitude_deg');
const longitudeCheck = numberCheck('longitude_deg');
const elevationCheck = numberCheck('elevation_m');

/** Returns null if the position of the place is unknown. */
function cleanPlace(kind: PlaceKind, row: PlaceRow, note: NoteRejection): Place | null {
  const { id, name, state } = row;
  const clean = <T>(column: string, value: T, check: FieldCheck, isLeftOut: boolean): T | null => {
    const reason = value === null ? null : check(value);
    if (reason !== null) note({ field: `${kind}.${column}`, reason, record: id.slice(0, 120), isLeftOut });
    return reason === null ? value : null;
  };
  const latitude = clean('latitude_deg', row.latitudeDeg, latitudeCheck, true);
  const longitude = clean('longitude_deg', row.longitudeDeg, longitudeCheck, true);
  if (latitude === null || longitude === null) return null;
  const elevationM = clean('elevation_m', row.elevationM, elevationCheck, false);
  const timeZone = clean('time_zone', row.timeZone, timeZoneCheck, false);
  return { id, name, latitude, longitude, elevationM, timeZone, state };
}
