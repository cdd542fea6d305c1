import type { Clock } from '../../core/lib/clock.ts';
import type { HttpPorts } from '../../api/http/app.ts';
import type { TaggedAnswer } from '../../api/http/answer/send-with-etag.ts';
import type { PageRoute } from '../../api/pages/page-routes.ts';
import type { Page } from '../../api/pages/render-page.ts';
import { publicPage, sendPublic } from '../../api/pages/send-page.ts';
import type { Site } from '../../api/pages/site.ts';
import { newKeptAnswers } from '../api/kept-answers.ts';
import type { WeatherPorts } from '../api/ports.ts';
import type { WeatherService } from '../api/service.ts';
import { mapPage } from './map-page.ts';
import { mapQuery, stationQuery, type ChosenUnits } from './map-query.ts';
import { rememberedUnits, unitsHeaders } from './remembered-units.ts';
import { stationPage } from './station-page.ts';
import { openZoneShapes } from './zone-shapes.ts';

/** A page is made of many reads: whoever comes within that time gets the same. */
const keptMs = 15_000;

type PagePorts = HttpPorts & WeatherPorts;
/** How the site that the pages belong to is found. */
type SiteOf = (ports: PagePorts) => Site;

/** The map and the stations, below `weather/`; present if a database is configured. */
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
          await sendPublic(req, res, await kept([query], { units: query.units, isChosen }, page));
        };
      },
    },
    {
      method: 'get',
      path: '/weather/stations/{station}',
      isPresent,
      handle: (ports) => {
        const { weather, clock, site, kept } = partsOf(ports, siteOf);
        return async (req: Parameters<typeof sendPublic>[0] & StationRequest, res) => {
          const { isChosen, units } = stationQuery(req.originalUrl, rememberedUnits(req));
          const id = req.params.station;
          const page = (): Promise<Page> =>
            stationPage({ weather, base: site.basePath }, { id, units, now: clock.now() });
          await sendPublic(req, res, await kept([id], { units, isChosen }, page));
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
  /** The page that is kept or under way for these parts of its URL and these units, or else a new one. */
  kept: (parts: readonly unknown[], units: ChosenUnits, make: () => Promise<Page>) => Promise<TaggedAnswer>;
}

function partsOf(ports: PagePorts, siteOf: SiteOf): PageParts {
  const { weather, clock } = ports;
  if (weather === null) throw new TypeError('weather pages without a weather service');
  const site = siteOf(ports);
  const answers = newKeptAnswers<TaggedAnswer & { goodForMs: number }>(clock, keptMs);
  return {
    weather,
    clock,
    site,
    kept: async (parts, units, make) => {
      const key = JSON.stringify([...parts, units]);
      const options = { vary: 'Cookie', headers: unitsHeaders(units, site.basePath) };
      const answer = async () => ({ ...publicPage(site, await make(), options), goodForMs: 0 });
      return (await answers.of(key, answer, () => undefined)).answer;
    },
  };
}
