import type { PgTable } from 'drizzle-orm/pg-core';
import type { Clock } from '../core/lib/clock.ts';
import type { ErrorCode } from '../core/lib/error-codes.ts';
import type { ParameterMap, Rule, ValuesOf } from '../core/lib/parameters.ts';
import type { Note, Rejection } from './database/cleaner.ts';
import type { WeatherDatabase } from './database/database.ts';
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
  /** Name of its text template: the file `<template>.txt.tmpl` of `templates.base_dir`. */
  template: string;
  /** What one item of each list in `Data` is called, for formats such as XML that name every item. */
  itemNames: Readonly<Record<ListNames<Data>, string>>;
  /** The record as places on a map. Absent: nothing of this family has a place. Pure. */
  features?(data: Data): Features;
  /** The record as rows and columns. Absent: it is no table. */
  table?: WeatherTable<NoInfer<Data>>;
  /**
   * Reads the record that a query asks for, from one consistent snapshot. Throws what the database throws:
   * `database_unavailable` (try again), `schema_mismatch` or `internal_error`.
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

/** A record, told as what has a place and what is said of all of it: the parts of a GeoJSON collection. */
export interface Features {
  /** Every member of the record but the places: when it was fetched, how many match, units. */
  about: object;
  /** In the order of the record. */
  places: readonly Placed[];
}

/** One place, or one thing that lies somewhere. */
export interface Placed {
  /** Identifies the feature within its family; null if it has no id. */
  id: string | null;
  /** null if the location is unknown. */
  geometry: Geometry | null;
  /** Every other member of it, as JSON has them. */
  properties: object;
}

/** What families read from. */
export interface WeatherSource {
  database: WeatherDatabase;
  clock: Clock;
  places: PlaceLists;
  /** Longest time that one read may take. */
  deadlineMs: number;
}

/** The result of one read. */
export interface Reading<T> {
  /** Null: no record exists. A run that holds nothing is data with an empty list. */
  data: T | null;
  /**
   * When the newest row that was used was last written or issued; null if that says nothing about the answer:
   * alerts, no data, and all that depends on the clock.
   */
  lastModified: Date | null;
  /** When the data was measured, issued or fetched. Decides whether it is stale. */
  asOf?: Date;
  /** Values and records left out as impossible; absent if there are none. */
  rejected?: readonly Rejection[];
  /** Parts of the record that are unknown, and not empty; absent if none is. */
  unknown?: readonly UnknownPart[];
  /** Parts that come from another issue than the record; absent if none does. */
  otherIssues?: readonly { field: string; issuedAt: Instant }[];
  /** When a newer issue was issued of which too little has arrived to answer with it. */
  newerIssuedAt?: Instant;
  /** What a request for a point was answered with; absent without one. */
  resolved?: ResolvedPlace;
  /** The next page of a list; absent after the last page. */
  next?: NextPage;
}

/** What stands for a point that was asked for: the nearest that has something to say. */
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

/** The parameters that ask for the next page; those that are not named stay as they were. */
export interface NextPage {
  start: Date;
  end: Date;
}

export interface Notes {
  note: Note;
  rejected: Rejection[];
}

/** A reading, and what was noted while it was made. */
export function reading<T>(
  found: { data: T; lastModified: Date | null; asOf: Date },
  { rejected }: Notes,
): Reading<T> {
  // Left-out values may become valid as time passes, so no modification date is reliable.
  return rejected.length === 0 ? found : { ...found, lastModified: null, rejected };
}

/** No record, and what was noted while one was looked for. */
export function noReading({ rejected }: Notes): Reading<never> {
  return rejected.length === 0 ? nothing : { ...nothing, rejected };
}

/** Collects what the rows of one read are rejected for; the same once. */
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

/** Declares a family; a member that is missing or does not fit the others is a compile error. */
export function weatherFamily<P extends ParameterMap, Data extends object>(
  family: WeatherFamily<P, Data>,
): WeatherFamily<P, Data> {
  return family;
}
