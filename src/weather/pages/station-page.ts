import { WaybillError } from '../../core/lib/errors.ts';
import type { PlaceData } from '../records/places.ts';
import type { UnitSystem } from '../units.ts';
import type { Page } from '../../api/pages/render-page.ts';
import type { WeatherService } from '../api/service.ts';
import { dataOf, sectionOf } from './section.ts';
import { stationView } from './station-view.ts';
import { unplacedAlerts } from './unplaced-alerts.ts';

const mostAlerts = 50;
const hours = 48;
const outlookDays = [1, 2, 3];

/** Throws `not_found` for a station that is not in the table, and what the reader throws of that question. */
export async function stationPage(
  { weather, base }: { weather: WeatherService; base: string },
  { id, units, now }: { id: string; units: UnitSystem; now: Date },
): Promise<Page> {
  const place = await placeOf(weather, id);
  const point = { latitude: place.latitude, longitude: place.longitude };
  const [conditions, newest, alerts, hourly, narrative, ...outlooks] = await Promise.all([
    sectionOf(weather, 'currentConditions', { station: [place.id], maxAge: 360, units }),
    sectionOf(weather, 'observations', { station: [place.id], units }),
    sectionOf(weather, 'alerts', { point, limit: mostAlerts }),
    sectionOf(weather, 'hourlyForecasts', { point, hours, units }),
    sectionOf(weather, 'narrativeForecasts', { point, periods: 14, units }),
    ...outlookDays.map((day) =>
      sectionOf(weather, 'convectiveOutlooks', { day, point, select: 'effective', geometry: false }),
    ),
  ]);
  const unplaced = await unplacedAlerts(weather, alerts, place);
  const office = dataOf(narrative)?.office ?? dataOf(hourly)?.office ?? null;
  const [discussion, stories] =
    office === null
      ? [null, null]
      : await Promise.all([
          sectionOf(weather, 'forecastDiscussions', { office }),
          sectionOf(weather, 'weatherStories', { office, limit: 7 }),
        ]);
  return stationView(
    {
      place,
      now,
      units,
      conditions,
      newest,
      alerts,
      unplaced,
      hourly,
      narrative,
      outlooks,
      discussion,
      stories,
    },
    base,
  );
}

/** @param id untrusted */
async function placeOf(weather: WeatherService, id: string): Promise<PlaceData> {
  const asked = id.toUpperCase();
  const isOne = /^[A-Z0-9]{3,8}$/.test(asked);
  const { data } = isOne ? await weather.record('stations', { q: asked, limit: 500 }) : { data: null };
  const place = data?.stations.find((each) => each.id === asked);
  if (place !== undefined) return place;
  throw new WaybillError('not_found', 'there is no weather station of this name', {
    hint: 'the map of the weather leads to every station that is known here',
  });
}
