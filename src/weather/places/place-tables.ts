import { doublePrecision, jsonb, pgTable, text } from 'drizzle-orm/pg-core';

/** The tables that say where something is. */

export const stations = pgTable('stations', {
  stationId: text('station_id').notNull(),
  name: text('name').notNull(),
  latitudeDeg: doublePrecision('latitude_deg').notNull(),
  longitudeDeg: doublePrecision('longitude_deg').notNull(),
  elevationM: doublePrecision('elevation_m'),
  timeZone: text('time_zone').notNull(),
  state: text('state'),
});
/** Grid cells of forecasts. */
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
/** Outlines of public, marine and offshore zones, and counties. */
export const zones = pgTable('zones', {
  ugc: text('ugc').notNull(),
  name: text('name'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});
/** Outlines of zones of fire weather, whose codes are also those of public zones. */
export const fireZones = pgTable('fire_zones', {
  ugc: text('ugc').notNull(),
  name: text('name'),
  geometry: jsonb('geometry').$type<Record<string, unknown>>().notNull(),
});
