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
 * Everything about a family of weather records in a single value: its tables, how the newest record is read,
 * and the endpoint that serves it, as plain data. The reader, the HTTP routes, the OpenAPI document and the
 * text templates are derived from the list of families (`families.ts`).
 */
export interface WeatherFamily<P extends ParameterMap = ParameterMap, Data extends object = object> {
  /** The tables of the contract (`docs/weather-contract.md`) that belong to this family. */
  tables: readonly PgTable[];
  endpoint: WeatherEndpointData<P>;
  /** The record's fields: their JSON Schema, and the type `Data`. */
  record: Field<Data>;
  /** Name of its text template, which is the file `<template>.txt.tmpl` in `templates.base_dir`. */
  template: string;
  /** The name for one item of each list in `Data`, for formats such as XML that name every item. */
  itemNames: Readonly<Record<ListNames<Data>, string>>;
  /** The record as places on a map. Absent if the family has no locations. */
  features?(data: Data): Features;
  /** The record as rows and columns. Absent if it is not tabular. */
  table?: WeatherTable<NoInfer<Data>>;
  /**
   * Reads a query's record from one consistent snapshot. Throws the database's errors: `database_unavailable`
   * (which can be retried), `schema_mismatch` or `internal_error`.
   */
  read(source: WeatherSource, query: ValuesOf<P>): Promise<Reading<Data>>;
}

export interface WeatherEndpointData<P extends ParameterMap> {
  /** Path below the base path, such as `/observations`, or `/alerts/{id}` if it contains a parameter. */
  path: string;
  /** Unique in the OpenAPI document. Generated clients use it as the operation's name. */
  operationId: string;
  /** A few words for the operation's title and the description of its answer. */
  summary: string;
  /** The query parameters by name, in the order in which the document lists them. */
  parameters: P;
  rules?: readonly Rule[];
  /** This endpoint's error codes, in addition to the common ones. */
  problems?: readonly ErrorCode[];
  /** How long caches may reuse an answer that has data, in seconds. */
  maxAgeSeconds: number;
}

/** A record as located items plus data about the whole, which are the parts of a GeoJSON collection. */
export interface Features {
  /**
   * Every member of the record except the places, such as the fetch time, the number of matches, and the
   * units.
   */
  about: object;
  /** The places, in the order of the record. */
  places: readonly Placed[];
}

/** An item with a location. */
export interface Placed {
  /** Identifies the feature within its family. null if it has no id. */
  id: string | null;
  /** null if the location is unknown. */
  geometry: Geometry | null;
  /** All other members of the item, as in JSON. */
  properties: object;
}

/** What families depend on. */
export interface WeatherSource {
  database: WeatherDatabase;
  clock: Clock;
  places: PlaceLists;
  /** Maximum duration of one read. */
  deadlineMs: number;
}

/** The result of one read. */
export interface Reading<T> {
  /** null if no record exists. A run without content counts as data with an empty list. */
  data: T | null;
  /**
   * When the newest row of the answer was last written or issued. null if that does not date the answer, as
   * for alerts, missing data, and answers that depend on the current time.
   */
  lastModified: Date | null;
  /** When the data was measured, issued or fetched. This decides whether it is stale. */
  asOf?: Date;
  /** Values and records left out as impossible. Absent if there are none. */
  rejected?: readonly Rejection[];
  /** Parts of the record that are unknown rather than empty. Absent if there are none. */
  unknown?: readonly UnknownPart[];
  /** Parts that come from a different issue than the record. Absent if there are none. */
  otherIssues?: readonly { field: string; issuedAt: Instant }[];
  /** When a newer issue was published that has not arrived completely enough to answer with. */
  newerIssuedAt?: Instant;
  /** The place that answers for a requested point. Absent if no point was requested. */
  resolved?: ResolvedPlace;
  /** The next page of a list. Absent after the last page. */
  next?: NextPage;
}

/** The place that answers for a requested point: the nearest one with data. */
export interface ResolvedPlace {
  kind: 'station' | 'location';
  id: string;
  name: string | null;
  /** Great-circle distance from the point in kilometers, to the nearest meter. */
  distanceKm: number;
  /** Bearing from the point to the place, in whole degrees clockwise from north, from 0 to 359. */
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

/** Parameters of the next page. All other parameters keep their values. */
export interface NextPage {
  start: Date;
  end: Date;
}

export interface Notes {
  note: Note;
  rejected: Rejection[];
}

/** Combines a reading with its notes. */
export function reading<T>(
  found: { data: T; lastModified: Date | null; asOf: Date },
  { rejected }: Notes,
): Reading<T> {
  // Rejected values may become valid as time passes, so no modification date is reliable.
  return rejected.length === 0 ? found : { ...found, lastModified: null, rejected };
}

/** Returns the reading with its notes for the case that no record was found. */
export function noReading({ rejected }: Notes): Reading<never> {
  return rejected.length === 0 ? nothing : { ...nothing, rejected };
}

/** Collects a read's rejections without duplicates. */
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

/** The names of all lists within `T`, at any depth. */
export type ListNames<T> = T extends readonly (infer Item)[]
  ? ListNames<Item>
  : T extends object
    ? {
        [K in keyof T & string]: (NonNullable<T[K]> extends readonly unknown[] ? K : never) | ListNames<T[K]>;
      }[keyof T & string]
    : never;

/** Declares a family. The compiler rejects members that are missing or do not match the others. */
export function weatherFamily<P extends ParameterMap, Data extends object>(
  family: WeatherFamily<P, Data>,
): WeatherFamily<P, Data> {
  return family;
}
