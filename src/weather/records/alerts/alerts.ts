import { desc, lte } from 'drizzle-orm';
import { WaybillError } from '../../../core/lib/errors.ts';
import {
  atMostOneOf,
  choices,
  identifier,
  identifiers,
  names,
  type Parameter,
  type ValuesOf,
  wholeNumber,
} from '../../../core/lib/parameters.ts';
import { pastCheck } from '../../database/cleaner.ts';
import { firstClean, presentUntil } from '../../database/columns.ts';
import type { Queries } from '../../database/database.ts';
import {
  newNotes,
  noReading,
  type Notes,
  type Reading,
  reading,
  weatherFamily,
  type WeatherSource,
} from '../../family.ts';
import { fireZones, zones } from '../../places/place-lists.ts';
import { boxParameter, pointParameter } from '../../places/place-parameters.ts';
import { instant, instantOrNull, type UnknownPart } from '../../values.ts';
import { type AlertData, alertRecord, type AlertsData, alertsRecord } from '../family-fields.ts';
import { type AlertOutlines, outlinesInTime } from './alert-outlines.ts';
import { alertData, type InForceQuery, selectAlert, selectInForce } from './alert-queries.ts';
import {
  alertAreas,
  alertReferences,
  alertRows,
  alertRunMembers,
  alertRuns,
  cleanRun,
  severities,
  ugcPattern,
} from './alert-tables.ts';

const parameters = {
  zone: identifiers(ugcPattern, 50, 'a UGC code, such as NYZ072', {
    description: 'Up to 50 zones or counties (UGC codes), comma-separated.',
    example: 'NYZ072,NYC061',
  }),
  area: identifier(/^[A-Z]{2}$/, 'two letters of a state or marine area, such as NY', {
    description: 'A state or marine area.',
    example: 'NY',
  }),
  office: identifier(/^[A-Z]{3}$/, 'the three letters of a forecast office, such as OKX', {
    description: 'The forecast office that issued the alert.',
    example: 'OKX',
  }),
  point: pointParameter(
    'Latitude and longitude. Lists alerts that apply there, by their geometry or the outlines of their zones.',
  ),
  bbox: boxParameter('Lists alerts that apply anywhere in this box: west, south, east, north.'),
  severity: choices(severities, {
    description: 'Severities, comma-separated. Default: all.',
    example: 'Extreme,Severe',
  }),
  event: names(50, 100, {
    description: 'Events, comma-separated, case-insensitive. Default: all.',
    example: 'Tornado Warning',
  }),
  limit: wholeNumber(1, 500, 100, {
    description: 'Maximum number of alerts. `total` is the number of matches.',
  }),
};
type AlertsQuery = ValuesOf<typeof parameters>;

const idParameter: Parameter<string> = {
  description: 'CAP identifier of the alert, as in `/alerts`.',
  example: 'urn:oid:2.49.0.1.840.0.1',
  schema: { type: 'string', minLength: 1, maxLength: 500 },
  absent: '',
  expected: 'the identifier of an alert, as /alerts has it',
  isInPath: true,
  parse: (text) => (text === '' || text.length > 500 || text.includes('\0') ? undefined : text),
};

type AlertTestData = AlertsData['tests'][number];

const maxTests = 20;

const itemNames = {
  affectedZones: 'zone',
  zones: 'zone',
  vtec: 'code',
  same: 'code',
  parameters: 'parameter',
  values: 'value',
  references: 'reference',
};
const tables = [alertRuns, alertRows, alertRunMembers, alertAreas, alertReferences, zones, fireZones];

/**
 * The alerts in force: those in the newest list whose event has not ended yet. An alert is included even if a
 * Cancel refers to it, because it may only cancel a part of the alert. Whether an alert is still active is
 * decided by the list.
 */
export const alerts = weatherFamily({
  tables,
  endpoint: {
    path: '/alerts',
    operationId: 'listAlerts',
    summary: 'List active alerts',
    parameters,
    rules: [atMostOneOf('zone', 'area', 'office', 'point', 'bbox')],
    maxAgeSeconds: 15,
  },
  record: alertsRecord,
  template: 'active_alerts',
  itemNames: { alerts: 'alert', tests: 'test', ...itemNames },
  features: ({ alerts, ...about }: AlertsData) => ({
    about,
    places: alerts.map(({ geometry, ...properties }) => ({ id: properties.id, geometry, properties })),
  }),
  read: readAlerts,
});

/** Returns a single alert by its id, even if it is no longer in force. */
export const alert = weatherFamily({
  tables,
  endpoint: {
    path: '/alerts/{id}',
    operationId: 'getAlert',
    summary: 'Get an alert',
    description: 'Also finds an alert that is no longer active.',
    parameters: { id: idParameter },
    problems: ['alert_not_found'],
    maxAgeSeconds: 60,
  },
  record: alertRecord,
  template: 'alert',
  itemNames,
  features: ({ geometry, ...properties }: AlertData) => ({
    about: {},
    places: [{ id: properties.id, geometry, properties }],
  }),
  read: readAlert,
});

async function readAlert({ database }: WeatherSource, { id }: { id: string }): Promise<Reading<AlertData>> {
  const notes = newNotes();
  const data = await database.one((queries) => selectAlert(queries, id, notes.note));
  if (data === null)
    throw new WaybillError('alert_not_found', 'there is no alert with this identifier', {
      hint: 'GET /alerts lists active alerts; the feeder decides how long expired alerts are kept',
    });
  return { ...noReading(notes), data };
}

async function readAlerts(source: WeatherSource, query: AlertsQuery): Promise<Reading<AlertsData>> {
  const { database, clock } = source;
  const notes = newNotes();
  if (query.point === null && query.bbox === null)
    return database.snapshot(async (queries) => {
      const run = await newestRun(queries, clock.now(), notes);
      return run === null
        ? noReading(notes)
        : readRun(queries, { run, query, places: null, now: clock.now() }, notes);
    });
  const until = clock.monotonic() + source.deadlineMs;
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const found = await readPlaced(source, query, until);
    if (found !== null) return found;
  }
  throw new WaybillError('database_unavailable', 'the alerts change faster than their outlines can be read', {
    hint: 'try again in a moment; ask without point and bbox',
  });
}

const maxAttempts = 3;

/** Returns null if there is a newer run by the time the outlines have been read. */
async function readPlaced(
  { database, clock }: WeatherSource,
  query: AlertsQuery,
  until: number,
): Promise<Reading<AlertsData> | null> {
  const notes = newNotes();
  const now = clock.now();
  const newest = await database.one((queries) => newestRun(queries, now, notes));
  if (newest === null) return noReading(notes);
  const places = await outlinesInTime({ database, clock, until }, newest);
  return database.snapshot(async (queries) => {
    const run = await newestRun(queries, now, notes);
    return run?.runId === newest.runId ? readRun(queries, { run, query, places, now }, notes) : null;
  });
}

function newestRun(queries: Queries, now: Date, { note }: Notes) {
  const fetchedAt = pastCheck(presentUntil(now));
  return firstClean(
    now,
    ({ limit, offset, until }) =>
      queries
        .select()
        .from(alertRuns)
        .where(until === null ? undefined : lte(alertRuns.fetchedAt, until))
        .orderBy(desc(alertRuns.fetchedAt), desc(alertRuns.runId))
        .limit(limit)
        .offset(offset),
    (row) => cleanRun(row, note, { fetchedAt }),
  );
}

type AlertRun = NonNullable<Awaited<ReturnType<typeof newestRun>>>;

async function readRun(
  queries: Queries,
  asked: { run: AlertRun; query: AlertsQuery; places: AlertOutlines | null; now: Date },
  notes: Notes,
): Promise<Reading<AlertsData>> {
  const { run, query, places, now } = asked;
  const wanted = { ...query, runId: run.runId, now };
  const there = places === null ? null : idsAt(places, query);
  const ids = there === null ? null : [...there];
  const { total, endless, alerts } = await selectInForce(queries, { ...wanted, ids }, notes.note);
  const unplaced = await unplacedOf(queries, { ...wanted, ids: null }, { places, there }, notes);
  const { alerts: tests } = await selectInForce(
    queries,
    { ...wanted, ids, onlyTests: true, limit: maxTests },
    () => undefined,
  );
  const data = {
    fetchedAt: instant(run.fetchedAt),
    sourceUpdatedAt: instantOrNull(run.sourceUpdatedAt),
    timeZone: 'UTC',
    total,
    unplaced: places === null && unplaced === 0 ? null : unplaced,
    alerts: alerts.map(alertData),
    tests: tests.map(alertData).map(testData),
  };
  const unknown: UnknownPart[] = [
    ...(unplaced === 0 ? [] : [{ field: 'alerts', reason: 'unplaced' } as const]),
    ...(endless === 0 ? [] : [{ field: 'alerts', reason: 'unreadable' } as const]),
  ];
  return { ...reading({ data, lastModified: null, asOf: run.fetchedAt }, notes), unknown };
}

/** Counts alerts that might apply to the requested place, because we do not know exactly where they do. */
async function unplacedOf(
  queries: Queries,
  query: InForceQuery,
  { places, there }: { places: AlertOutlines | null; there: ReadonlySet<string> | null },
  { note }: Notes,
): Promise<number> {
  const count = async (more: Partial<InForceQuery>): Promise<number> => {
    const found = await selectInForce(queries, { ...query, ...more, limit: 1 }, note);
    return found.total + found.endless;
  };
  if (places === null)
    return query.zone.length === 0 && query.area === null
      ? 0
      : count({ zone: [], area: null, onlyPlaceless: true });
  const others = [...places.unplaced].filter((id) => there?.has(id) !== true);
  return others.length === 0 ? 0 : count({ ids: others });
}

function testData(alert: AlertData): AlertTestData {
  const { id, event, status, headline, areaDescription, senderName, expiresAt, endsAt } = alert;
  return { id, event, status, headline, areaDescription, senderName, expiresAt, endsAt };
}

function idsAt({ index }: AlertOutlines, { point, bbox }: AlertsQuery): ReadonlySet<string> {
  if (point !== null) return index.at(point);
  return bbox === null ? new Set() : index.within(bbox);
}
