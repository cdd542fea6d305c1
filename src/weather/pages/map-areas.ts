import type { AlertData } from '../records/alerts/alert-queries.ts';
import type { ConvectiveOutlookData } from '../records/convective-outlooks.ts';
import { alertColour, alertRank, outlookColour } from './colours.ts';
import { outlinePath } from './projection.ts';
import type { ZoneShapes } from './zone-shapes.ts';

/** What is drawn in one colour, and its line in the legend. */
export interface MapArea {
  label: string;
  colour: string;
  /** Data of an SVG path; empty where nothing of it is on the map. */
  shape: string;
  /** How many alerts; null for what is not counted. */
  count: number | null;
}

/** Alerts by their event, those that take precedence last, so that they lie on top. */
export async function alertAreas(
  alerts: readonly AlertData[],
  zoneShapes: ZoneShapes,
  least: number,
): Promise<{ areas: MapArea[]; drawn: string[] }> {
  const zones = await zoneShapes(
    alerts.flatMap(({ geometry, affectedZones }) => (geometry === null ? affectedZones : [])),
    least,
  );
  const byEvent = new Map<string, { shapes: Set<string>; count: number }>();
  const drawn: string[] = [];
  for (const { id, event, geometry, affectedZones } of alerts) {
    const area = byEvent.get(event) ?? { shapes: new Set(), count: 0 };
    byEvent.set(event, area);
    area.count += 1;
    const shapes =
      geometry === null ? affectedZones.map((key) => zones.get(key) ?? '') : [outlinePath(geometry, least)];
    for (const shape of shapes) area.shapes.add(shape);
    // An outline of its own may be outside of this map.
    if (geometry !== null || (shapes.length > 0 && shapes.every((shape) => shape !== ''))) drawn.push(id);
  }
  const areas = [...byEvent]
    .sort(([a], [b]) => alertRank(b) - alertRank(a) || b.localeCompare(a))
    .map(([event, { shapes, count }]) => ({
      label: event,
      colour: alertColour(event),
      shape: [...shapes].join(''),
      count,
    }));
  return { areas, drawn };
}

/** The categories of an outlook, from the least. */
export function outlookAreas({ areas }: ConvectiveOutlookData, least: number): MapArea[] {
  return areas
    .filter(
      ({ hazard, kind }) => (hazard === 'categorical' || hazard === 'any_severe') && kind !== 'intensity',
    )
    .map(({ label, labelText, fill, geometry }) => ({
      label: labelText ?? label,
      colour: outlookColour({ label, fill }),
      shape: geometry === null ? '' : outlinePath(geometry, least),
      count: null,
    }));
}
