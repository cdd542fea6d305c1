import { plural } from '../../core/lib/text.ts';
import type { WeatherService } from '../api/service.ts';
import type { AlertData, AlertsData } from '../records/family-fields.ts';
import type { PlaceData } from '../records/observation-fields.ts';
import type { UnknownPart } from '../values.ts';
import type { MapContent } from './map-layers.ts';
import { states } from './map-shapes.ts';
import { dataOf, type Section, sectionOf } from './section.ts';
import { ageOf, joined } from './words.ts';

/** The notices of the map page, and alerts without a known place. */

interface Notice {
  status: 'warning' | 'failure' | 'neutral';
  text: string;
}

/**
 * Returns notices about problems with the data. Also says that no alerts are in force, but only if that is
 * certain.
 */
export function noticesOf(content: MapContent): Notice[] {
  const { outlook, shown, stations } = content;
  const notices = [...sectionNotices(content), ...(outlook === null ? [] : outlookNotices(outlook))];
  if (stations.length === 0) notices.push({ status: 'neutral', text: 'No weather station is known here.' });
  else if (shown.length === 0)
    notices.push({
      status: 'warning',
      text: 'No station has reported in the last three hours: there is no present weather to show.',
    });
  return notices;
}

function sectionNotices({ alerts, outlook, now, query }: MapContent): Notice[] {
  const section = outlook ?? alerts;
  const what = outlook === null ? 'Alerts' : 'The outlook';
  if (section.kind === 'refused') return [{ status: 'failure', text: `${what}: ${section.why}` }];
  if (section.data === null) {
    const text =
      outlook === null
        ? 'No poll of alerts is known, so that nothing can be said of them.'
        : 'No outlook is known for this day.';
    return [{ status: 'warning', text }];
  }
  if (section.stale && section.asOf !== null) {
    const text = `${what} shown here are stale: they are ${ageOf(section.asOf, now)} old. Look elsewhere for what holds now.`;
    return [{ status: 'warning', text }];
  }
  const isQuiet =
    alerts.kind === 'read' &&
    outlook === null &&
    alerts.data?.total === 0 &&
    (alerts.data.unplaced ?? 0) === 0 &&
    alerts.unknown.length === 0;
  if (!isQuiet) return [];
  return [{ status: 'neutral', text: `No alert is in force${query.state === null ? '' : ' here'}.` }];
}

function outlookNotices(outlook: NonNullable<MapContent['outlook']>): Notice[] {
  if (outlook.kind !== 'read' || outlook.unknown.length === 0) return [];
  if (hazardsUnknown(outlook.unknown) !== null) return [];
  const text = 'This outlook has arrived in part: there may be a higher risk than is shown.';
  return [{ status: 'warning', text }];
}

/** Returns sentences about alerts that are not certain. They come after the list of those that are. */
export function asidesOf({ alerts, drawnAlerts, outlook }: MapContent): string[] {
  const data = dataOf(alerts);
  if (data === null || outlook !== null) return [];
  const drawn = new Set(drawnAlerts);
  const unplaced = data.alerts.filter(({ id }) => !drawn.has(id));
  const elsewhere = data.unplaced ?? 0;
  return [
    ...(unplaced.length > 0
      ? [`Not on the map, because their areas are unknown: ${namesOf(unplaced)}.`]
      : []),
    ...(elsewhere > 0 ? [`${mayApply(elsewhere)}.`] : []),
    ...(data.total > data.alerts.length
      ? [`Shown are the ${data.alerts.length} most severe of ${data.total} alerts.`]
      : []),
  ];
}

/** Returns a sentence about test messages, or null if there are none. */
export function testsOf({ alerts, outlook }: MapContent): string | null {
  const tests = dataOf(alerts)?.tests ?? [];
  return outlook !== null || tests.length === 0 ? null : `Not warnings: ${namesOf(tests)}.`;
}

/** Hazards that the map does not show, but the station pages do. */
export const otherHazards = [
  ['tornado', 'tornadoes'],
  ['wind', 'damaging wind'],
  ['hail', 'large hail'],
] as const;

/** Returns a sentence if only hazards are unknown that the map does not show anyway; otherwise null. */
export function hazardsUnknown(unknown: readonly UnknownPart[]): string | null {
  const others = otherHazards.filter(([hazard]) => unknown.some(({ field }) => field === hazard));
  if (others.length === 0 || unknown.length > others.length) return null;
  return chanceUnknown(others.map(([, name]) => name));
}

export function chanceUnknown(hazards: readonly string[]): string {
  return `The chance of ${joined(hazards)} is not known yet.`;
}

const maxNamed = 10;

/** Lists up to ten alerts with their areas: `Flood Watch (Kings; Queens), …`. */
function namesOf(alerts: readonly { event: string; areaDescription: string }[]): string {
  const names = alerts
    .slice(0, maxNamed)
    .map(({ event, areaDescription }) => `${event} (${areaDescription})`);
  const others = alerts.length - names.length;
  return `${names.join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
}

/** Begins a sentence about alerts without a place. */
export function mayApply(count: number): string {
  return `${plural(count, 'alert')} may apply here, but ${count === 1 ? 'its exact area is' : 'their exact areas are'} unknown`;
}

const maxAlerts = 500;
const maxCandidates = 50;
const maxNear = 5;

/** Alerts without a known place. */
export interface Unplaced {
  /** Alerts that might apply to a station; if there are many, only the first ones. */
  near: readonly AlertData[];
  /** The number of those that cannot apply to it, because all their zones are in other states. */
  elsewhere: number;
}

/** Returns alerts that have no place because some of their outlines are missing or cannot be read. */
export async function unplacedAlerts(
  weather: WeatherService,
  at: Section<AlertsData>,
  { state }: PlaceData,
): Promise<Unplaced> {
  if ((dataOf(at)?.unplaced ?? 0) === 0) return { near: [], elsewhere: 0 };
  const placed = new Set(dataOf(at)?.alerts.map(({ id }) => id));
  const all = dataOf(await sectionOf(weather, 'alerts', { limit: maxAlerts }))?.alerts ?? [];
  const candidates = all.filter(
    (each) => (each.geometry === null || has(each, 'UnreadableOutline')) && !placed.has(each.id),
  );
  const near = candidates.filter((each) => !isElsewhere(each, state)).slice(0, maxCandidates);
  const far = candidates.filter((each) => isElsewhere(each, state)).slice(0, maxCandidates);
  const outlines = await weather.zoneOutlines([...near, ...far].flatMap((each) => each.affectedZones));
  const isUnplaced = (each: AlertData): boolean =>
    has(each, 'UnreadableUGC') ||
    has(each, 'UnreadableOutline') ||
    each.affectedZones.length === 0 ||
    each.affectedZones.some((key) => !outlines.has(key));
  return { near: near.filter(isUnplaced).slice(0, maxNear), elsewhere: far.filter(isUnplaced).length };
}

/** Reports whether all zones of an alert are outside the state of the station. */
function isElsewhere(alert: AlertData, state: string | null): boolean {
  const codes = new Set(states().map(({ code }) => code));
  if (state === null || !codes.has(state) || alert.zones.length === 0 || has(alert, 'UnreadableUGC'))
    return false;
  return alert.zones.map((zone) => zone.slice(0, 2)).every((code) => codes.has(code) && code !== state);
}

function has({ parameters }: AlertData, parameter: string): boolean {
  return parameters.some(({ name }) => name === parameter);
}
