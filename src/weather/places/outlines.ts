import { setImmediate as nextTurn } from 'node:timers/promises';
import { booleanPointInPolygon } from '@turf/boolean-point-in-polygon';
import { sql } from 'drizzle-orm';
import Flatbush from 'flatbush';
import { WaybillError } from '../../core/lib/errors.ts';
import { geometryCheck } from '../database/cleaner.ts';
import type { WeatherDatabase } from '../database/database.ts';
import { type Point, type Polygon, polygonsOf, type Ring, turnsOf } from '../shape.ts';
import type { Geometry } from '../values.ts';
import { fireZones, zones } from './place-lists.ts';
import { type Box, partsOf, type Position, ugcOf, type ZoneKey, zoneKey, zoneKind } from './position.ts';

/** A polygon or multipolygon, and the ids of its owners, such as alerts. */
export interface Outline {
  owners: readonly string[];
  geometry: Geometry;
}

/**
 * Searches hundreds of thousands of outlines without checking each of them. Cannot be changed once it has
 * been built.
 */
export interface OutlineIndex {
  /** Returns the owners of all outlines that the point is in, or on the edge of. */
  at(position: Position): ReadonlySet<string>;
  /** Returns the owners of all outlines that overlap or touch the box. */
  within(box: Box): ReadonlySet<string>;
}

interface Owned extends Polygon {
  owners: readonly string[];
}

/** The number of outlines to process before yielding to the event loop. */
const outlinesPerYield = 1000;

/**
 * Builds an index. Edges are straight lines in longitude and latitude, and go the shorter way around the
 * Earth. If a polygon reaches a pole at any longitude, the pole is considered part of it. Lets other work run
 * while it builds, and does not modify its input.
 */
export async function outlineIndex(outlines: readonly Outline[]): Promise<OutlineIndex> {
  const polygons: Owned[] = [];
  for (const [index, { owners, geometry }] of outlines.entries()) {
    if (index % outlinesPerYield === 0) await nextTurn();
    for (const polygon of polygonsOf(geometry)) polygons.push({ owners, ...polygon });
  }
  if (polygons.length === 0) return { at: () => new Set(), within: () => new Set() };
  const tree = new Flatbush(polygons.length);
  for (const { box } of polygons) tree.add(box.west, box.south, box.east, box.north);
  await nextTurn();
  tree.finish();
  const found = (box: Box, isWanted: (polygon: Polygon, turned: Box) => boolean): Owned[] =>
    turnsOf(box).flatMap((turned) =>
      tree
        .search(turned.west, turned.south, turned.east, turned.north)
        .flatMap((index) => polygons[index] ?? [])
        .filter((polygon) => isWanted(polygon, turned)),
    );
  return {
    at: (position) =>
      ownersOf(found(searchOf(position), ({ rings }, turned) => isIn(rings, position, turned))),
    within: (box) =>
      ownersOf(partsOf(box).flatMap((part) => found(part, ({ rings }, turned) => meetsBox(rings, turned)))),
  };
}

/** Reports whether a point is in a polygon or multipolygon, or on its edge. */
export function contains(geometry: Geometry, position: Position): boolean {
  return polygonsOf(geometry).some(({ rings, box }) =>
    turnsOf(searchOf(position)).some((turned) => overlap(box, turned) && isIn(rings, position, turned)),
  );
}

function overlap(a: Box, b: Box): boolean {
  return a.west <= b.east && b.west <= a.east && a.south <= b.north && b.south <= a.north;
}

/** Returns the box to search for outlines at a point. At a pole, it includes all longitudes. */
function searchOf(position: Position): Box {
  const { latitude, longitude } = position;
  const parallel = { south: latitude, north: latitude };
  return isAtPole(position)
    ? { ...parallel, west: -180, east: 180 }
    : { ...parallel, west: longitude, east: longitude };
}

/** @param box The box to search, shifted by multiples of 360° so that it overlaps the box of the polygon. */
function isIn(rings: readonly Ring[], position: Position, box: Box): boolean {
  return isAtPole(position) || holds(rings, box);
}

function isAtPole({ latitude }: Position): boolean {
  return Math.abs(latitude) === 90;
}

/** @param box A single point. */
function holds(rings: readonly Ring[], { west, south }: Box): boolean {
  return booleanPointInPolygon([west, south], {
    type: 'Polygon',
    coordinates: rings as unknown as number[][][],
  });
}

function meetsBox(rings: readonly Ring[], box: Box): boolean {
  return (
    rings.some((ring) =>
      ring.some((point, index) => index > 0 && crosses(ring[index - 1] ?? point, point, box)),
    ) || holds(rings, box)
  );
}

/** Reports whether any part of a line is in the box, using the Liang–Barsky algorithm. */
function crosses([x0, y0]: Point, [x1, y1]: Point, { west, south, east, north }: Box): boolean {
  let from = 0;
  let to = 1;
  const bounds: readonly Point[] = [
    [x0 - x1, x0 - west],
    [x1 - x0, east - x0],
    [y0 - y1, y0 - south],
    [y1 - y0, north - y0],
  ];
  for (const [step, room] of bounds) {
    if (step === 0 && room < 0) return false;
    if (step < 0) from = Math.max(from, room / step);
    if (step > 0) to = Math.min(to, room / step);
  }
  return from <= to;
}

function ownersOf(polygons: readonly Owned[]): ReadonlySet<string> {
  return new Set(polygons.flatMap(({ owners }) => owners));
}

/** Returns the outlines of zones and counties, by key. Keys that are not found are left out. */
export type ZoneOutlines = (keys: readonly ZoneKey[]) => Promise<ReadonlyMap<ZoneKey, Geometry>>;

/** If the database has no table of outlines, nothing is found. */
export function openZoneOutlines(database: WeatherDatabase): ZoneOutlines {
  return async (keys) => {
    if (keys.length === 0) return new Map();
    try {
      return await readZones(database, keys);
    } catch (error) {
      if (error instanceof WaybillError && error.code === 'schema_mismatch') return new Map();
      throw error;
    }
  };
}

/**
 * Reads the outlines of zones, by key. Fire weather zones are in a table that was added later; if the table
 * does not exist, none of them are found. Throws the database's errors.
 */
export async function readZones(
  database: WeatherDatabase,
  keys: readonly ZoneKey[],
): Promise<Map<ZoneKey, Geometry>> {
  const found = new Map<ZoneKey, Geometry>();
  const fire = keys.filter((key) => key.startsWith('fire/'));
  const others = keys.filter((key) => !key.startsWith('fire/'));
  for (const { ugc, geometry } of await rowsOf(database, zones, others))
    for (const key of others) if (ugcOf(key) === ugc) found.set(key, geometry);
  if (fire.length === 0) return found;
  const rows = await rowsOf(database, fireZones, fire).catch((error: unknown) => {
    if (error instanceof WaybillError && error.code === 'schema_mismatch') return [];
    throw error;
  });
  for (const { ugc, geometry } of rows) found.set(zoneKey(ugc, zoneKind(ugc, 'fire')), geometry);
  return found;
}

async function rowsOf(
  database: WeatherDatabase,
  table: typeof zones | typeof fireZones,
  keys: readonly ZoneKey[],
): Promise<{ ugc: string; geometry: Geometry }[]> {
  // Pass the keys as a single JSON value. Preparing a statement with a thousand parameters would take longer
  // than running it.
  const list = JSON.stringify(keys.map(ugcOf));
  const rows = await database.one((queries) =>
    queries
      .select({ ugc: table.ugc, geometry: table.geometry })
      .from(table)
      .where(sql`${table.ugc} in (select jsonb_array_elements_text(${list}::text::jsonb))`),
  );
  return rows.filter(({ geometry }) => geometryCheck(geometry) === null && geometry['type'] !== 'Point');
}
