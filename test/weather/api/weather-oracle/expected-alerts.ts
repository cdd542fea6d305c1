import { areaWithin, isWithin, type Rings } from '../../brute-force.ts';
import type { Expected } from './expected-texts.ts';
import { cell, instantOf, momentOf, type Row, sorted, type Tables, textOf } from './rows.ts';

/** The expected alerts, each with every field, from a search through all of them. */

export interface AlertQuestion {
  now: number;
  zone: string[];
  area: string | null;
  office: string | null;
  point: { latitude: number; longitude: number } | null;
  bbox: { west: number; south: number; east: number; north: number } | null;
  severity: string[];
  event: string[];
  limit: number;
}

const hour = 3_600_000;
const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'];

export function alertData(tables: Tables, row: Row): object {
  const id = textOf(row, 'alert_id');
  const of = (rows: readonly Row[]): Row[] => rows.filter((each) => each['alert_id'] === id);
  const areas = of(tables.alert_areas);
  const same = areas.flatMap((each) => (textOf(each, 'same') ?? '').match(/\S+/g) ?? []);
  const parameters = cell(row, 'parameters') as Readonly<Record<string, unknown>>;
  return {
    id,
    event: textOf(row, 'event'),
    eventCode: textOf(row, 'event_code'),
    headline: textOf(row, 'headline'),
    severity: textOf(row, 'severity'),
    certainty: textOf(row, 'certainty'),
    urgency: textOf(row, 'urgency'),
    status: textOf(row, 'status'),
    messageType: textOf(row, 'message_type'),
    category: textOf(row, 'category'),
    sentAt: instantOf(row, 'sent_at'),
    effectiveAt: instantOf(row, 'effective_at'),
    onsetAt: instantOf(row, 'onset_at'),
    expiresAt: instantOf(row, 'expires_at'),
    endsAt: instantOf(row, 'ends_at'),
    office: textOf(row, 'office'),
    senderName: textOf(row, 'sender_name'),
    areaDescription: textOf(row, 'area_desc'),
    zones: areas.map((each) => textOf(each, 'ugc')).sort(),
    affectedZones: areas
      .map((each) => String(each['ugc']))
      .sort()
      .map((ugc) => `${kindOf(ugc, row)}/${ugc}`),
    isTest: isTest(row),
    description: textOf(row, 'description'),
    instruction: textOf(row, 'instruction'),
    response: textOf(row, 'response'),
    language: textOf(row, 'language'),
    vtec: cell(row, 'vtec'),
    same: [...new Set(same)].sort(),
    parameters: Object.entries(parameters)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, value]) => ({
        name,
        values: (Array.isArray(value) ? value : [value]).map((each: unknown) =>
          typeof each === 'string' ? each : JSON.stringify(each),
        ),
      })),
    references: of(tables.alert_references)
      .map((each) => textOf(each, 'ref_id'))
      .sort(),
    geometry: cell(row, 'geometry'),
  };
}

/** No alert of the generated world has a fire weather code. The samples name it as their event. */
function kindOf(ugc: string, row: Row): string {
  if (/^(Red Flag|Fire Weather)/.test(String(row['event']))) return 'fire';
  if (ugc[2] === 'C') return 'county';
  return /^(AM|AN|GM|LC|LE|LH|LM|LO|LS|PH|PK|PM|PS|PZ|SL)/.test(ugc) ? 'marine' : 'public';
}

export function alertsInForce(tables: Tables, asked: AlertQuestion): Expected | null {
  const [poll] = sorted(
    tables.alert_runs.filter((row) => momentOf(row, 'fetched_at') <= asked.now + hour),
    (row) => -momentOf(row, 'fetched_at'),
    (row) => -Number(row['run_id']),
  );
  if (poll === undefined) return null;
  const members = new Set(
    tables.alert_run_members
      .filter((row) => row['run_id'] === poll['run_id'])
      .map((row) => textOf(row, 'alert_id')),
  );
  const lasting = tables.alerts.filter(
    (row) => members.has(textOf(row, 'alert_id')) && isLasting(row, asked.now) && isMeant(tables, row, asked),
  );
  const matching = lasting.filter((row) => row['status'] === 'Actual');
  const isPlaced = asked.point !== null || asked.bbox !== null;
  const there = isPlaced ? matching.filter((row) => holds(tables, row, asked)) : matching;
  // Alerts without zones are not found by zone.
  const placeless =
    asked.zone.length === 0 && asked.area === null
      ? 0
      : tables.alerts.filter(
          (row) =>
            members.has(textOf(row, 'alert_id')) &&
            row['status'] === 'Actual' &&
            isLasting(row, asked.now) &&
            codesOf(tables, row).length === 0 &&
            isMeant(tables, row, { ...asked, zone: [], area: null }),
        ).length;
  const unplaced = matching.filter((row) => !there.includes(row) && isSomewhereUnknown(tables, row));
  const inOrder = (rows: readonly Row[]): Row[] =>
    sorted(
      rows,
      (row) => severities.indexOf(textOf(row, 'severity') ?? ''),
      (row) => -momentOf(row, 'sent_at'),
      (row) => textOf(row, 'alert_id') ?? '',
    );
  const tests = lasting.filter((row) => isTest(row) && (!isPlaced || holds(tables, row, asked)));
  const data = {
    fetchedAt: instantOf(poll, 'fetched_at'),
    sourceUpdatedAt: instantOf(poll, 'source_updated_at'),
    timeZone: 'UTC',
    total: there.length,
    unplaced: isPlaced ? unplaced.length : placeless > 0 ? placeless : null,
    alerts: inOrder(there)
      .slice(0, asked.limit)
      .map((row) => alertData(tables, row)),
    tests: inOrder(tests)
      .slice(0, 20)
      .map((row) => ({
        id: textOf(row, 'alert_id'),
        event: textOf(row, 'event'),
        status: textOf(row, 'status'),
        headline: textOf(row, 'headline'),
        areaDescription: textOf(row, 'area_desc'),
        senderName: textOf(row, 'sender_name'),
        expiresAt: instantOf(row, 'expires_at'),
        endsAt: instantOf(row, 'ends_at'),
      })),
  };
  const isUnknown = (isPlaced ? unplaced.length : 0) + placeless > 0;
  const meta = { unknown: [{ field: 'alerts', reason: 'unplaced' }] };
  return { data, asOf: momentOf(poll, 'fetched_at'), ...(isUnknown ? { meta } : {}) };
}

function isTest(row: Row): boolean {
  return ['Test', 'Exercise', 'Draft'].includes(String(row['status']));
}

function isLasting(row: Row, now: number): boolean {
  const isOver = momentOf(row, row['ends_at'] === null ? 'expires_at' : 'ends_at') <= now;
  return !isOver && (row['message_type'] === 'Alert' || row['message_type'] === 'Update');
}

/** Matches all parameters except the place. */
function isMeant(tables: Tables, row: Row, { zone, area, office, severity, event }: AlertQuestion): boolean {
  const codes = codesOf(tables, row);
  const events = event.map((each) => each.toLowerCase());
  return (
    (zone.length === 0 || codes.some((code) => zone.includes(code))) &&
    (area === null || codes.some((code) => code.startsWith(area))) &&
    (office === null || row['office'] === office) &&
    (severity.length === 0 || severity.includes(String(row['severity']))) &&
    (event.length === 0 || events.includes(String(row['event']).toLowerCase()))
  );
}

function codesOf({ alert_areas: areas }: Tables, row: Row): string[] {
  return areas.filter((each) => each['alert_id'] === row['alert_id']).map((each) => String(each['ugc']));
}

/** Matches its own geometry, or the geometries of its zones. */
function holds(tables: Tables, row: Row, { point, bbox }: AlertQuestion): boolean {
  const outlines =
    row['geometry'] === null
      ? codesOf(tables, row).flatMap((code) =>
          tables.zones.filter((zone) => zone['ugc'] === code).map((zone) => polygonsOf(zone['geometry'])),
        )
      : [polygonsOf(row['geometry'])];
  return outlines.some((polygons) =>
    point === null ? bbox !== null && reaches(polygons, bbox) : isWithin(polygons, point),
  );
}

function reaches(
  polygons: readonly Rings[],
  { west, south, east, north }: NonNullable<AlertQuestion['bbox']>,
): boolean {
  const parts =
    west <= east
      ? [[west, east]]
      : [
          [west, 180],
          [-180, east],
        ];
  return parts.some(([from = 0, to = 0]) => areaWithin(polygons, from, south, to, north) > 1e-9);
}

function isSomewhereUnknown(tables: Tables, row: Row): boolean {
  const codes = codesOf(tables, row);
  const isKnown = (code: string): boolean => tables.zones.some((zone) => zone['ugc'] === code);
  return row['geometry'] === null && (codes.length === 0 || !codes.every(isKnown));
}

export function polygonsOf(geometry: unknown): readonly Rings[] {
  const { type, coordinates } = geometry as { type: string; coordinates: unknown };
  return type === 'Polygon' ? [coordinates as Rings] : (coordinates as Rings[]);
}
