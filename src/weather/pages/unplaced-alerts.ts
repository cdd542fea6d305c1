import type { AlertData } from '../records/alerts/alert-queries.ts';
import type { AlertsData } from '../records/alerts/alerts.ts';
import type { PlaceData } from '../records/places.ts';
import type { WeatherService } from '../api/service.ts';
import { dataOf, sectionOf, type Section } from './section.ts';

export type UnplacedAlert = Pick<AlertData, 'event' | 'areaDescription'>;

const maxAlerts = 500;
const maxLookedAt = 50;
const maxNamed = 5;

/**
 * Names of alerts that may hold at a place, since an outline of theirs is missing; those of its state and
 * those that name no zone come first. Empty if every alert is placed.
 */
export async function unplacedAlerts(
  weather: WeatherService,
  at: Section<AlertsData>,
  { state }: PlaceData,
): Promise<UnplacedAlert[]> {
  if ((dataOf(at)?.unplaced ?? 0) === 0) return [];
  const placed = new Set(dataOf(at)?.alerts.map(({ id }) => id));
  const all = dataOf(await sectionOf(weather, 'alerts', { limit: maxAlerts }))?.alerts ?? [];
  const isNear = ({ zones }: AlertData): boolean =>
    zones.length === 0 || (state !== null && zones.some((zone) => zone.startsWith(state)));
  const near = all
    .filter((each) => (each.geometry === null || has(each, 'UnreadableOutline')) && !placed.has(each.id))
    .sort((a, b) => Number(isNear(b)) - Number(isNear(a)))
    .slice(0, maxLookedAt);
  const outlines = await weather.zoneOutlines(near.flatMap(({ affectedZones }) => affectedZones));
  return near
    .filter(
      (each) =>
        has(each, 'UnreadableUGC') ||
        has(each, 'UnreadableOutline') ||
        each.affectedZones.length === 0 ||
        each.affectedZones.some((key) => !outlines.has(key)),
    )
    .slice(0, maxNamed);
}

function has({ parameters }: AlertData, parameter: string): boolean {
  return parameters.some(({ name }) => name === parameter);
}
