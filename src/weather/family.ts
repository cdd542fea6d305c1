import type { PgTable } from 'drizzle-orm/pg-core';
import type { Clock } from '../core/lib/clock.ts';
import type { ErrorCode } from '../core/lib/error-codes.ts';
import type { ParameterMap, Rule, ValuesOf } from '../core/lib/parameters.ts';
import type { NoteRejection, Rejection } from './database/cleaner.ts';
import type { WeatherDatabase } from './database/database.ts';
import type { Field } from './fields.ts';
import type { Nearby } from './places/place-index.ts';
import type { PlaceLists } from './places/place-lists.ts';
import type { Geometry, UnknownPart, UtcTime, WeatherTable } from './values.ts';

/**
 * Defines a family of weather records: its tables, its fields, how to read the current record, and its HTTP
 * endpoint. The reader, the routes, the OpenAPI document and the text templates are all generated from these
 * definitions. They are listed in `families.ts`.
 */
export interface WeatherFamily<P extends ParameterMap = ParameterMap, Data extends object = object> {
  /** The family's tables, as documented in `docs/weather-contract.md`. */
  tables: readonly PgTable[];
  endpoint: WeatherEndpointData<P>;
  /** The record's fields, as a JSON Schema and as the type `Data`. */
  record: Field<Data>;
  /** The name of the text template, which is the file `<template>.txt.tmpl` in `templates.base_dir`. */
  template: string;
  /** The name for a single item of each list in `Data`. Some formats, such as XML, require one. */
  itemNames: Readonly<Record<ListNames<Data>, string>>;
  /** Returns the items of the record with their locations, for GeoJSON. Absent if they have none. */
  features?(data: Data): Features;
  /** The columns to use for CSV. Absent if the record is not a table. */
  table?: WeatherTable<NoInfer<Data>>;
  /**
   * Reads the record that a query asks for. All of its data is from the same snapshot. Throws
   * `database_unavailable`, which can be retried, `schema_mismatch` or `internal_error`.
   */
  read(source: WeatherSource, query: ValuesOf<P>): Promise<Reading<Data>>;
}

export interface WeatherEndpointData<P extends ParameterMap> {
  /** The path below the base path: `/observations`, or `/alerts/{id}` with a parameter. */
  path: string;
  /** A unique name. Generated clients use it as the name of the method. */
  operationId: string;
  /** A few words for the title of the operation and the description of its response. */
  summary: string;
  /** What the summary does not say. */
  description?: string;
  /** The query parameters by name, in the order of the OpenAPI document. */
  parameters: P;
  rules?: readonly Rule[];
  /** Error codes of this endpoint, in addition to those that all endpoints have. */
  problems?: readonly ErrorCode[];
  /** How long clients and proxies may cache a response that has data, in seconds. */
  maxAgeSeconds: number;
}

/** A record in the form that a GeoJSON collection needs. */
export interface Features {
  /**
   * Everything in the record except the items, such as the time it was fetched, the number of matches, and
   * the units.
   */
  about: object;
  /** The items, in the same order as in the record. */
  places: readonly Placed[];
}

export interface Placed {
  /** Unique within the family; null if the item has no id. */
  id: string | null;
  /** null if the location is unknown. */
  geometry: Geometry | null;
  /** The item's other members. */
  properties: object;
}

export interface WeatherSource {
  database: WeatherDatabase;
  clock: Clock;
  places: PlaceLists;
  /** The time limit for a read, in milliseconds. */
  deadlineMs: number;
}

export interface Reading<T> {
  /** null if there is no record. A run that found nothing is a record with an empty list. */
  data: T | null;
  /**
   * When the newest row was written or issued. null if the response can change without that date changing,
   * which is the case for alerts, missing data, and everything that depends on the current time.
   */
  lastModified: Date | null;
  /** When the data was measured, issued or fetched. Determines whether it is stale. */
  asOf?: Date;
  /** Invalid values and records that were left out. Absent if there are none. */
  rejected?: readonly Rejection[];
  /**
   * Parts of the record that could not be determined and must not be mistaken for empty ones. Absent if there
   * are none.
   */
  unknown?: readonly UnknownPart[];
  /** Parts that come from a different issuance than the rest of the record. Absent if there are none. */
  otherIssues?: readonly { field: string; issuedAt: UtcTime }[];
  /** When a newer version was issued, if it has not been received in full yet. */
  newerIssuedAt?: UtcTime;
  /** The place whose data is returned for the requested point. Absent if the request has no point. */
  resolved?: ResolvedPlace;
  /** How to get the next page of a list. Absent on the last page. */
  next?: NextPage;
}

/** The nearest place to a requested point that has data. */
export interface ResolvedPlace {
  kind: 'station' | 'location';
  id: string;
  name: string | null;
  /** The great-circle distance from the point in kilometers, rounded to the nearest meter. */
  distanceKm: number;
  /** The direction from the point to the place, in whole degrees clockwise from north, from 0 to 359. */
  bearingDeg: number;
}

export function resolvedPlace(
  kind: ResolvedPlace['kind'],
  { place, distanceKm, bearingDeg }: Nearby,
): ResolvedPlace {
  const { id, name } = place;
  const toTheMetre = Math.round(distanceKm * 1000) / 1000;
  return { kind, id, name, distanceKm: toTheMetre, bearingDeg: Math.round(bearingDeg) % 360 };
}

export interface NextPage {
  start: Date;
  end: Date;
}

export interface Notes {
  note: NoteRejection;
  rejected: Rejection[];
}

/** Adds the invalid values that were found to a result. */
export function reading<T>(
  found: { data: T; lastModified: Date | null; asOf: Date },
  { rejected }: Notes,
): Reading<T> {
  // Do not send a modification date. Whether some values are valid depends on the current time, so the
  // response may change without the data changing.
  return rejected.length === 0 ? found : { ...found, lastModified: null, rejected };
}

/** Returns the result when no record was found, with any invalid values. */
export function noReading({ rejected }: Notes): Reading<never> {
  return rejected.length === 0 ? nothing : { ...nothing, rejected };
}

/** Collects the invalid values found by a read, each only once. */
export function newNotes(): Notes {
  const rejected: Rejection[] = [];
  const known = new Set<string>();
  const note: NoteRejection = (each) => {
    const name = `${each.field} ${each.reason} ${each.record}`;
    if (known.has(name)) return;
    known.add(name);
    rejected.push(each);
  };
  return { note, rejected };
}

const nothing = { data: null, lastModified: null } as const;

/** The names of all lists in `T`, including nested ones. */
export type ListNames<T> = T extends readonly (infer Item)[]
  ? ListNames<Item>
  : T extends object
    ? {
        [K in keyof T & string]: (NonNullable<T[K]> extends readonly unknown[] ? K : never) | ListNames<T[K]>;
      }[keyof T & string]
    : never;

/** Lets the compiler check that a definition is complete and consistent. */
export function weatherFamily<P extends ParameterMap, Data extends object>(
  family: WeatherFamily<P, Data>,
): WeatherFamily<P, Data> {
  return family;
}
