import type { AlertsData } from '../records/alerts/alerts.ts';
import type { PlaceData } from '../records/places.ts';
import type { MapArea } from './map-areas.ts';
import type { MapQuery } from './map-query.ts';
import type { MapStation } from './map-stations.ts';
import type { Section } from './section.ts';
import type { MapFrame, StateOutline } from './states.ts';

/** All that the page of the map tells. */
export interface MapContent {
  query: MapQuery;
  now: Date;
  state: StateOutline | null;
  frame: MapFrame;
  /** All of the country or of the state. */
  stations: readonly PlaceData[];
  shown: readonly MapStation[];
  /** Null where no name was looked for. */
  found: readonly PlaceData[] | null;
  alerts: Section<AlertsData>;
  /** When the outlook was issued, and what it is called; null where alerts are shown. */
  outlook: Section<{ day: number; issuedAt: string; validFrom: string; validUntil: string }> | null;
  areas: readonly MapArea[];
  /** Identifiers of alerts of which an outline is known; empty where an outlook is shown. */
  drawnAlerts: readonly string[];
}
