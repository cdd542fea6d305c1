import { bboxClip } from '@turf/bbox-clip';
import { rewind } from '@turf/rewind';
import { stringify } from 'csv-stringify/sync';
import { writeXml, type XmlNode, xmlText } from '../../core/lib/xml.ts';
import type { RejectionReason } from '../database/cleaner.ts';
import type { Features, ResolvedPlace } from '../family.ts';
import { type Polygon, polygonsOf } from '../shape.ts';
import { converterOf, type UnitSystem } from '../units.ts';
import type { Geometry, UnknownPart, UtcTime, WeatherTable } from '../values.ts';

/** Information about the data in a response. Members are left out if they do not apply. */
export interface AnswerMeta {
  /** Always true. Means that the data is older than it should be. */
  stale?: true;
  /** When the newest data was measured, issued or fetched. Only present together with `stale`. */
  asOf?: UtcTime;
  /** The place that was found for the requested point. */
  resolved?: ResolvedPlace;
  /** Parts of the record that are unknown. A null or empty value here does not mean that there is nothing. */
  unknown?: readonly UnknownPart[];
  /** Parts that are from an earlier issuance, because the latest one has not been received completely. */
  otherIssues?: readonly { field: string; issuedAt: UtcTime }[];
  /** When the latest version was issued, if too much of it is still missing for it to be returned. */
  newerIssuedAt?: UtcTime;
  /** Fields that were set to null, and records that were left out, because their values are impossible. */
  rejected?: readonly RejectedFields[];
}

export interface RejectedFields {
  /** The table and column. */
  field: string;
  reason: RejectionReason;
  count: number;
}

/** Returns a JSON response: `data`, and `meta` if it is not null. */
export function renderJson(data: object | null, meta: AnswerMeta | null = null): string {
  return JSON.stringify(meta === null ? { data } : { data, meta });
}

/**
 * Returns a table as CSV (RFC 4180), with CRLF line endings. The first line contains the column names, with
 * units in parentheses. If there is no record, it is the only line. Values that are unknown are empty. Text
 * that a spreadsheet could run as a formula, because it begins with = + - @, a tab or a carriage return, gets
 * an apostrophe in front, as OWASP recommends. Numbers are not changed.
 */
export function renderCsv(table: WeatherTable, data: object | null, system: UnitSystem): string {
  const { units } = converterOf(system);
  const names = table.columns.map(({ name, quantity }) =>
    quantity === undefined ? name : `${name} (${units[quantity]})`,
  );
  return stringify([names, ...(data === null ? [] : table.rows(data))], {
    record_delimiter: 'windows',
    escape_formulas: true,
    cast: { boolean: String },
  });
}

const schemaInstance = 'http://www.w3.org/2001/XMLSchema-instance';

/** The name for a single item of each list, by the name of the list. */
type ItemNames = Readonly<Record<string, string>>;
const metaItemNames: ItemNames = { rejected: 'fields', unknown: 'part', otherIssues: 'part' };

/**
 * Returns a response as XML, `<response><data>…`, in which the elements have the same names as in JSON. null
 * becomes `xsi:nil`, a list becomes an element with a child for each item, and a GeoJSON geometry is included
 * as JSON. Characters that are not allowed in XML 1.0 are removed.
 */
export function renderXml(data: object | null, itemNames: ItemNames, meta: AnswerMeta | null = null): string {
  const about: Record<string, XmlNode> = meta === null ? {} : { meta: nodeOf('meta', meta, metaItemNames) };
  const response = { '@xmlns:xsi': schemaInstance, data: nodeOf('data', data, itemNames), ...about };
  return writeXml({ response });
}

function nodeOf(name: string, value: unknown, itemNames: ItemNames): XmlNode {
  if (value === null || value === undefined) return { '@xsi:nil': 'true' };
  if (typeof value === 'string') return xmlText(value);
  if (typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) {
    const child = itemNames[name];
    if (child === undefined) throw new TypeError(`the items of the list "${name}" have no name`);
    return { [child]: value.map((item) => nodeOf(child, item, itemNames)) };
  }
  if (name === 'geometry')
    return { '@mediaType': 'application/geo+json', '#text': xmlText(JSON.stringify(value)) };
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, nodeOf(key, inner, itemNames)]),
  );
}

/**
 * Returns the items of a record as a GeoJSON collection (RFC 7946). Everything else is in the foreign members
 * `data`, which is null if there is no record, and `meta`. Names are the same as in JSON.
 */
export function renderGeoJson(features: Features | null, meta: AnswerMeta | null = null): string {
  const { about, places } = features ?? { about: null, places: [] };
  return JSON.stringify({
    type: 'FeatureCollection',
    data: about,
    meta: meta ?? undefined,
    features: places.map(({ id, geometry, properties }) => ({
      type: 'Feature',
      id: id ?? undefined,
      geometry: geometry === null ? null : mapGeometry(geometry),
      properties,
    })),
  });
}

/**
 * Converts a geometry to follow RFC 7946: outer rings are counterclockwise and holes clockwise (3.1.6), and
 * polygons are cut at the antimeridian (3.1.9).
 *
 * @param geometry Must have passed `geometryCheck`.
 */
export function mapGeometry(geometry: Geometry): Geometry {
  if (geometry['type'] === 'Point') return geometry;
  const parts = polygonsOf(geometry).flatMap(cut);
  const [only] = parts;
  const shape =
    geometry['type'] === 'Polygon' && parts.length === 1 && only !== undefined
      ? { type: 'Polygon' as const, coordinates: only }
      : { type: 'MultiPolygon' as const, coordinates: parts };
  return rewind(shape) as unknown as Geometry;
}

/** Splits a polygon that crosses the antimeridian. Returns other polygons unchanged. */
function cut({ rings, box }: Polygon): number[][][][] {
  const coordinates = rings.map((ring) => ring.map(([longitude, latitude]) => [longitude, latitude]));
  if (box.east <= 180) return [coordinates];
  return [0, 360].flatMap((by) => {
    const clipped = bboxClip({ type: 'Polygon', coordinates }, [by - 180, -90, by + 180, 90]);
    const parts = clipped.geometry.coordinates as number[][][];
    return parts.length === 0
      ? []
      : [parts.map((ring) => ring.map(([longitude = 0, latitude = 0]) => [longitude - by, latitude]))];
  });
}
