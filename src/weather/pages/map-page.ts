import type { Page } from '../../api/pages/render-page.ts';
import type { WeatherService } from '../api/service.ts';
import { alertAreas, outlookAreas } from './map-areas.ts';
import { mapView } from './map-view.ts';
import type { MapQuery } from './map-query.ts';
import { observed, spread } from './map-stations.ts';
import { dataOf, sectionOf } from './section.ts';
import { frameOf, states, wholeCountry } from './states.ts';
import type { ZoneShapes } from './zone-shapes.ts';

/** Every place at once: they are few, and in memory. */
const mostPlaces = 100_000;
const mostFound = 50;
const mostAlerts = 500;

/** Throws what the reader throws where there is nothing to make a map of: the stations. */
export async function mapPage(
  parts: { weather: WeatherService; zoneShapes: ZoneShapes; base: string },
  query: MapQuery,
  now: Date,
): Promise<Page> {
  const { weather, zoneShapes, base } = parts;
  const state = states().find(({ code }) => code === query.state) ?? null;
  const frame = state === null ? wholeCountry : frameOf(state);
  // On the screen of a desk, about a pixel.
  const least = (frame.width / wholeCountry.width) * 1.2;
  const { data: listed } = await weather.record('stations', { state: query.state, limit: mostPlaces });
  const stations = listed?.stations ?? [];
  const found =
    query.q === null
      ? null
      : ((await weather.record('stations', { q: query.q, limit: mostFound })).data?.stations ?? []);
  const shown = await observed(weather, spread(stations, frame), now);
  const alerts = await sectionOf(weather, 'alerts', { area: query.state, limit: mostAlerts });
  const outlook =
    query.day === null
      ? null
      : await sectionOf(weather, 'convectiveOutlooks', { day: query.day, select: 'effective' });
  const shownOutlook = outlook === null ? null : dataOf(outlook);
  const { areas, drawn } =
    outlook === null
      ? await alertAreas(dataOf(alerts)?.alerts ?? [], zoneShapes, least)
      : { areas: shownOutlook === null ? [] : outlookAreas(shownOutlook, least), drawn: [] };
  return mapView(
    { query, now, state, frame, stations, shown, found, alerts, outlook, areas, drawnAlerts: drawn },
    base,
  );
}
