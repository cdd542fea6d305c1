import { bboxClip } from '@turf/bbox-clip';
import { rewind } from '@turf/rewind';
import { stringify } from 'csv-stringify/sync';
import { writeXml, type XmlNode, xmlText } from '../../core/lib/xml.ts';
import type { RejectionReason } from '../database/cleaner.ts';
import type { Features, ResolvedPlace } from '../family.ts';
import { type Polygon, polygonsOf } from '../shape.ts';
import { converterOf, type UnitSystem } from '../units.ts';
import type { Geometry, Instant, UnknownPart, WeatherTable } from '../values.ts';

/** Remarks about an answer's data. Each one is absent unless it applies. */
export interface AnswerMeta {
  /** Always true if present. The data is older than it should be. */
  stale?: true;
  /** When the newest of the data was measured, issued or fetched. Present together with `stale`. */
  asOf?: Instant;
  /** The place that answers for the requested point. */
  resolved?: ResolvedPlace;
  /** Unknown parts of the record. A null or an empty list there does not mean that there is nothing. */
  unknown?: readonly UnknownPart[];
  /** Parts taken from an earlier issue, because the newest issue has not fully arrived. */
  otherIssues?: readonly { field: string; issuedAt: Instant }[];
  /** When a newer issue was published that has not arrived completely enough to answer with. */
  newerIssuedAt?: Instant;
  /** Fields set to null and records left out because their values are impossible. */
  rejected?: readonly RejectedFields[];
}

export interface RejectedFields {
  /** Table and column. */
  field: string;
  reason: RejectionReason;
  count: number;
}

/** Returns the envelope of a JSON answer. `meta` is left out if it is null. */
export function renderJson(data: object | null, meta: AnswerMeta | null = null): string {
  return JSON.stringify(meta === null ? { data } : { data, meta });
}

/**
 * Renders a table as CSV (RFC 4180). Lines end with CRLF. The first line has the column names, with the unit
 * in parentheses if there is one. Unknown values are empty. Without a record, only the names are written.
 * Text that a spreadsheet would run as a formula (starting with = + - @, a tab or a carriage return) is
 * prefixed with an apostrophe, as OWASP recommends. Numbers are left as they are.
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

/** The name for one item of each list, keyed by the name of the list. */
type ItemNames = Readonly<Record<string, string>>;
const metaItemNames: ItemNames = { rejected: 'fields', unknown: 'part', otherIssues: 'part' };

/**
 * Renders the same data as XML: `<response><data>…`, with the element names of JSON. null becomes `xsi:nil`,
 * a list becomes a wrapper with one child per item, and a GeoJSON geometry becomes its JSON text. Characters
 * that XML 1.0 forbids are dropped.
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
 * Renders the places of an answer as a GeoJSON collection (RFC 7946). Data about the whole answer is in the
 * foreign members `data` (null if there is no record) and `meta`, with the names of the JSON format.
 */
export function renderGeoJson(features: Features | null, meta: AnswerMeta | null = null): string {
  const { about, places } = features ?? { about: null, places: [] };
  return JSON.stringify({
    type: 'FeatureCollection',
    data: about,
    ...(meta === null ? {} : { meta }),
    features: places.map(({ id, geometry, properties }) => ({
      type: 'Feature',
      ...(id === null ? {} : { id }),
      geometry: geometry === null ? null : mapGeometry(geometry),
      properties,
    })),
  });
}

/**
 * Converts a geometry to the form that RFC 7946 requires: outer rings run counterclockwise and holes
 * clockwise (3.1.6), and polygons are cut at the antimeridian (3.1.9).
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

/**
 * Returns a polygon's parts on either side of the antimeridian, or the polygon itself if it does not cross
 * it.
 */
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
