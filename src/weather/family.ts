import type { PgTable } from 'drizzle-orm/pg-core';
import type { Clock } from '../core/lib/clock.ts';
import type { ErrorCode } from '../core/lib/error-codes.ts';
import type { ParameterMap, Rule, ValuesOf } from '../core/lib/parameters.ts';
import type { Note, Rejection } from './database/cleaner.ts';
import type { WeatherDatabase } from './database/database.ts';
import type { Field } from './fields.ts';
import type { Nearby } from './places/place-index.ts';
import type { PlaceLists } from './places/place-lists.ts';
import type { Geometry, Instant, UnknownPart, WeatherTable } from './values.ts';

/**
 * A family of weather records, all in one value: its tables, how the newest record is read, and the endpoint
 * that serves it, as plain data. The reader, the HTTP routes, the OpenAPI document and the text templates
 * derive from the list of families (`families.ts`).
 */
export interface WeatherFamily<P extends ParameterMap = ParameterMap, Data extends object = object> {
  /** The tables of the contract (`docs/weather-contract.md`) that belong to this family. */
  tables: readonly PgTable[];
  endpoint: WeatherEndpointData<P>;
  /** The fields of the record: their JSON Schema, and the type `Data`. */
  record: Field<Data>;
  /** Name of its text template: the file `<template>.txt.tmpl` of `templates.base_dir`. */
  template: string;
  /** The name of one item of each list in `Data`, for formats such as XML that name every item. */
  itemNames: Readonly<Record<ListNames<Data>, string>>;
  /** The record as places on a map; absent if the family has no locations. */
  features?(data: Data): Features;
  /** The record as rows and columns; absent if it is not tabular. */
  table?: WeatherTable<NoInfer<Data>>;
  /**
   * Reads the record of a query from one consistent snapshot. Throws the errors of the database:
   * `database_unavailable` (retry), `schema_mismatch` or `internal_error`.
   */
  read(source: WeatherSource, query: ValuesOf<P>): Promise<Reading<Data>>;
}

export interface WeatherEndpointData<P extends ParameterMap> {
  /** Below the base path: `/observations`, or `/alerts/{id}` with a parameter that is in the path. */
  path: string;
  /** Unique in the OpenAPI document; what generated clients call the operation. */
  operationId: string;
  /** A few words, as the title of the operation and the description of its answer. */
  summary: string;
  /** Each by its name in the query, in the order in which the document shows them. */
  parameters: P;
  rules?: readonly Rule[];
  /** Error codes of this endpoint, in addition to the common ones. */
  problems?: readonly ErrorCode[];
  /** How long caches may reuse an answer that has data. */
  maxAgeSeconds: number;
}

/** A record as located items and data about the whole: the parts of a GeoJSON collection. */
export interface Features {
  /** Every member of the record but the places: when it was fetched, how many match, units. */
  about: object;
  /** In the order of the record. */
  places: readonly Placed[];
}

/** An item with a location. */
export interface Placed {
  /** Identifies the feature within its family; null if it has no id. */
  id: string | null;
  /** null if the location is unknown. */
  geometry: Geometry | null;
  /** Every other member of it, as JSON has them. */
  properties: object;
}

/** The dependencies of families. */
export interface WeatherSource {
  database: WeatherDatabase;
  clock: Clock;
  places: PlaceLists;
  /** Longest time that one read may take. */
  deadlineMs: number;
}

/** The result of one read. */
export interface Reading<T> {
  /** null if no record exists. A run without content is data with an empty list. */
  data: T | null;
  /**
   * When the newest row of the answer was last written or issued. null if that does not date the answer:
   * alerts, no data, and answers that depend on the current time.
   */
  lastModified: Date | null;
  /** When the data was measured, issued or fetched. Decides whether it is stale. */
  asOf?: Date;
  /** Values and records left out as impossible; absent if there are none. */
  rejected?: readonly Rejection[];
  /** Unknown parts of the record, which are not empty; absent if there are none. */
  unknown?: readonly UnknownPart[];
  /** Parts from another issue than the record; absent if there are none. */
  otherIssues?: readonly { field: string; issuedAt: Instant }[];
  /** When a newer issue was issued of which too little has arrived to answer with it. */
  newerIssuedAt?: Instant;
  /** The place that answers for a requested point; absent without a point. */
  resolved?: ResolvedPlace;
  /** The next page of a list; absent after the last page. */
  next?: NextPage;
}

/** The place that answers for a requested point: the nearest one with data. */
export interface ResolvedPlace {
  kind: 'station' | 'location';
  id: string;
  name: string | null;
  /** Great-circle distance from the point in kilometres, to the metre. */
  distanceKm: number;
  /** From the point to the place, in whole degrees clockwise from north: 0 to 359. */
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

/** Parameters of the next page. Other parameters keep their values. */
export interface NextPage {
  start: Date;
  end: Date;
}

export interface Notes {
  note: Note;
  rejected: Rejection[];
}

/** A reading with its notes. */
export function reading<T>(
  found: { data: T; lastModified: Date | null; asOf: Date },
  { rejected }: Notes,
): Reading<T> {
  // Left-out values may become valid as time passes, so no modification date is reliable.
  return rejected.length === 0 ? found : { ...found, lastModified: null, rejected };
}

/** Returns the reading if no record was found, with its notes. */
export function noReading({ rejected }: Notes): Reading<never> {
  return rejected.length === 0 ? nothing : { ...nothing, rejected };
}

/** Collects the rejections of one read, without duplicates. */
export function newNotes(): Notes {
  const rejected: Rejection[] = [];
  const known = new Set<string>();
  const note: Note = (each) => {
    const name = `${each.field} ${each.reason} ${each.record}`;
    if (known.has(name)) return;
    known.add(name);
    rejected.push(each);
  };
  return { note, rejected };
}

const nothing = { data: null, lastModified: null } as const;

/** The names of all lists within `T`, however deep. */
export type ListNames<T> = T extends readonly (infer Item)[]
  ? ListNames<Item>
  : T extends object
    ? {
        [K in keyof T & string]: (NonNullable<T[K]> extends readonly unknown[] ? K : never) | ListNames<T[K]>;
      }[keyof T & string]
    : never;

/** Declares a family. The compiler rejects a member that is missing or does not match the others. */
export function weatherFamily<P extends ParameterMap, Data extends object>(
  family: WeatherFamily<P, Data>,
): WeatherFamily<P, Data> {
  return family;
}
