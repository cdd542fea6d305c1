import { sendCompressed } from '../../api/http/answer/send-compressed.ts';
import type { TaggedAnswer } from '../../api/http/answer/send-with-etag.ts';
import type { HttpPorts } from '../../api/http/http-app.ts';
import type { PageRoute } from '../../api/pages/page-routes.ts';
import type { Page } from '../../api/pages/render-page.ts';
import { publicPage } from '../../api/pages/send-page.ts';
import type { Site } from '../../api/pages/site.ts';
import type { Clock } from '../../core/lib/clock.ts';
import { WaybillError } from '../../core/lib/errors.ts';
import { newAnswerCache } from '../api/answer-cache.ts';
import type { WeatherPorts, WeatherService } from '../api/service.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { distanceIn, type UnitSystem } from '../units.ts';
import { isCurrent, observed, spread } from './map-layers.ts';
import { unplacedAlerts } from './map-notices.ts';
import {
  type ChosenUnits,
  type MapQuery,
  mapQuery,
  rememberedUnits,
  stationQuery,
  unitsHeaders,
} from './map-query.ts';
import {
  alertAreas,
  frameOf,
  openZoneShapes,
  outlookAreas,
  states,
  wholeCountry,
  type ZoneShapes,
} from './map-shapes.ts';
import { mapView } from './map-view.ts';
import { dataOf, outlookSection, sectionOf } from './section.ts';
import { stationView } from './station-view.ts';
import type { NearStation } from './station-weather.ts';
import { zoneOfState } from './storm-view.ts';

/** Creating a page takes many reads, so requests within this many milliseconds get the same page. */
const keptMs = 15_000;

type PagePorts = HttpPorts & WeatherPorts;
/** Returns the settings that all pages of the site share. */
type SiteOf = (ports: PagePorts) => Site;

/**
 * Returns the routes for the map and for stations, below `weather/`. They only exist if a database is
 * configured.
 */
export function weatherPages(siteOf: SiteOf): readonly PageRoute<PagePorts>[] {
  const isPresent = ({ weather }: PagePorts): boolean => weather !== null;
  return [
    {
      method: 'get',
      path: '/weather',
      isPresent,
      handle: (ports) => (_req, res) => res.redirect(308, `${siteOf(ports).basePath}weather/`),
    },
    {
      method: 'get',
      path: '/weather/',
      isPresent,
      handle: (ports) => {
        const { weather, clock, site, kept } = partsOf(ports, siteOf);
        const zoneShapes = openZoneShapes(weather, clock);
        return async (req, res) => {
          const { isChosen, ...query } = mapQuery(req.originalUrl, rememberedUnits(req));
          const page = (): Promise<Page> =>
            mapPage({ weather, zoneShapes, base: site.basePath }, query, clock.now());
          await sendCompressed(req, res, await kept([query], { units: query.units, isChosen }, page));
        };
      },
    },
    {
      method: 'get',
      path: '/weather/stations/{station}',
      isPresent,
      handle: (ports) => {
        const { weather, clock, site, kept } = partsOf(ports, siteOf);
        return async (req: Parameters<typeof sendCompressed>[0] & StationRequest, res) => {
          const { isChosen, units } = stationQuery(req.originalUrl, rememberedUnits(req));
          const id = req.params.station;
          const page = (): Promise<Page> =>
            stationPage({ weather, base: site.basePath }, { id, units, now: clock.now() });
          await sendCompressed(req, res, await kept([id], { units, isChosen }, page));
        };
      },
    },
  ];
}

interface StationRequest {
  originalUrl: string;
  params: { station: string };
}

interface PageParts {
  weather: WeatherService;
  clock: Clock;
  site: Site;
  /**
   * Calls `make` to create a page, unless the same page with the same units is in the cache or already being
   * created.
   */
  kept: (parts: readonly unknown[], units: ChosenUnits, make: () => Promise<Page>) => Promise<TaggedAnswer>;
}

function partsOf(ports: PagePorts, siteOf: SiteOf): PageParts {
  const { weather, clock } = ports;
  if (weather === null) throw new TypeError('weather pages without a weather service');
  const site = siteOf(ports);
  const answers = newAnswerCache<TaggedAnswer & { staleIfErrorMs: number }>(clock, keptMs);
  return {
    weather,
    clock,
    site,
    kept: async (parts, units, make) => {
      const key = JSON.stringify([...parts, units]);
      const options = { vary: 'Cookie', headers: unitsHeaders(units, site.basePath) };
      const answer = async () => ({ ...publicPage(site, await make(), options), staleIfErrorMs: 0 });
      return (await answers.of(key, answer, () => undefined)).answer;
    },
  };
}

/** Larger than the number of places, all of which easily fit in memory. */
const maxPlaces = 100_000;
const maxFound = 50;
const maxAlerts = 500;
const maxListedAgeMs = 3 * 60 * 60_000;

/** Creates the map page. Throws the reader's error if the stations cannot be read. */
async function mapPage(
  parts: { weather: WeatherService; zoneShapes: ZoneShapes; base: string },
  query: MapQuery,
  now: Date,
): Promise<Page> {
  const { weather, zoneShapes, base } = parts;
  const state = states().find(({ code }) => code === query.state) ?? null;
  const frame = state === null ? wholeCountry : frameOf(state);
  // About one pixel on a desktop screen.
  const least = (frame.width / wholeCountry.width) * 1.2;
  const { data: listed } = await weather.record('stations', { state: query.state, limit: maxPlaces });
  const stations = listed?.stations ?? [];
  const found =
    query.q === null
      ? null
      : ((await weather.record('stations', { q: query.q, limit: maxFound })).data?.stations ?? []);
  const shown = await observed(weather, spread(stations, frame), now);
  const since = new Date(now.getTime() - maxListedAgeMs);
  const ids = state === null ? [] : stations.map(({ id }) => id);
  const inState = await weather.newestObservations(ids, since);
  const alerts = await sectionOf(weather, 'alerts', { area: query.state, limit: maxAlerts });
  const outlook =
    query.day === null
      ? null
      : await outlookSection(weather, { day: query.day }, { now, timeZone: zoneOfState(query.state) });
  const shownOutlook = outlook === null ? null : dataOf(outlook);
  const { areas, drawn } =
    outlook === null
      ? await alertAreas(dataOf(alerts)?.alerts ?? [], zoneShapes, least)
      : { areas: shownOutlook === null ? [] : outlookAreas(shownOutlook, least), drawn: [] };
  return mapView(
    {
      ...{ query, now, state, frame, stations, shown, observed: inState },
      ...{ found, alerts, outlook, areas, drawnAlerts: drawn },
    },
    base,
  );
}

const maxStationAlerts = 50;
/** A week. */
const hours = 168;
const outlookDays = [1, 2, 3];

/**
 * Creates the page of a station. Throws `station_not_found`, and the reader's errors if the station cannot be
 * looked up.
 */
async function stationPage(
  { weather, base }: { weather: WeatherService; base: string },
  { id, units, now }: { id: string; units: UnitSystem; now: Date },
): Promise<Page> {
  const place = await placeOf(weather, id);
  const point = { latitude: place.latitude, longitude: place.longitude };
  const [conditions, newest, alerts, hourly, narrative, ...outlooks] = await Promise.all([
    sectionOf(weather, 'currentConditions', { station: [place.id], maxAge: 360, units }),
    sectionOf(weather, 'observations', { station: [place.id], units }),
    sectionOf(weather, 'alerts', { point, limit: maxStationAlerts }),
    sectionOf(weather, 'hourlyForecasts', { point, hours, units }),
    sectionOf(weather, 'narrativeForecasts', { point, periods: 14, units }),
    ...outlookDays.map((day) =>
      outlookSection(weather, { day, point, geometry: false }, { now, timeZone: place.timeZone }),
    ),
  ]);
  const unplaced = await unplacedAlerts(weather, alerts, place);
  const isSilent = conditions.kind === 'read' && (conditions.data === null || conditions.stale);
  const nearest = isSilent ? await nearestReporting(weather, place, { units, now }) : [];
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
      nearest,
      discussion,
      stories,
    },
    base,
  );
}

/** The number of stations to try, their greatest distance in kilometers, and the number to show. */
const maxNear = 50;
const maxNearKm = 150;
const shownNear = 3;

/** Returns the nearest stations that have reported in the last hours. */
async function nearestReporting(
  weather: WeatherService,
  { id, latitude, longitude }: PlaceData,
  { units, now }: { units: UnitSystem; now: Date },
): Promise<NearStation[]> {
  const near = await sectionOf(weather, 'stations', { near: { latitude, longitude }, limit: maxNear, units });
  const farthest = distanceIn(units, maxNearKm);
  const places = (dataOf(near)?.stations ?? [])
    .filter((each) => each.id !== id && isCurrent(each) && (each.distance ?? 0) <= farthest)
    .slice(0, shownNear);
  const ids = places.map((place) => place.id);
  const newest = await weather.newestObservations(ids, new Date(now.getTime() - maxListedAgeMs));
  return places.map((place) => ({ place, observation: newest.get(place.id) ?? null }));
}

/** @param id untrusted */
async function placeOf(weather: WeatherService, id: string): Promise<PlaceData> {
  const asked = id.toUpperCase();
  const isOne = /^[A-Z0-9]{3,8}$/.test(asked);
  const { data } = isOne ? await weather.record('stations', { q: asked, limit: 500 }) : { data: null };
  const place = data?.stations.find((each) => each.id === asked);
  if (place !== undefined) return place;
  throw new WaybillError(
    'station_not_found',
    isOne ? `no weather station is called ${asked}` : 'no weather station has this name',
    { hint: 'search for a code such as KNYC, or for the start of a name, on the map of the weather' },
  );
}
