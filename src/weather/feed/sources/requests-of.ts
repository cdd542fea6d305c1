import type { NwsConfig, SourceName } from '../../../core/config/weather/feed.ts';
import type { PolledList } from '../tables/polls.ts';

/** One document that is polled. */
export interface Source {
  name: SourceName;
  url: string;
  /** The file name to assume for the document. */
  fileName: string;
  /** The list whose newest run is confirmed by an unchanged response, or null if there is none. */
  polled: PolledList | null;
  /**
   * WMO collections in a list of text products, from each of which the newest product is fetched. If empty,
   * the newest product overall is fetched. If null, the URL is the document itself.
   */
  collections: readonly string[] | null;
  /** True if the list continues at `pagination.next`. */
  hasPages: boolean;
}

/** Covers days 1, 2, 3 and 4 to 8. Other SWO products are not outlooks. */
const outlookCollections = ['ACUS01', 'ACUS02', 'ACUS03', 'ACUS48'];
const observationsEach = 12;

/** Returns all requests to the NWS and SPC that the configuration defines. */
export function sourcesOf(config: NwsConfig): Source[] {
  const api = (path: string): string => `${config.baseUrl}${path}`;
  const plain = (name: SourceName, url: string, fileName: string): Source => ({
    name,
    url,
    fileName,
    polled: null,
    collections: null,
    hasPages: false,
  });
  const { alerts } = config;
  return [
    ...(alerts === null
      ? []
      : [
          {
            ...plain('alerts', api(`/alerts/active?${alertQuery(alerts)}`), 'alerts.json'),
            polled: { family: 'alerts' } as const,
          },
        ]),
    ...config.stations.map((station) =>
      plain(
        'observations',
        api(`/stations/${station}/observations?limit=${observationsEach}`),
        `${station}.json`,
      ),
    ),
    ...config.locations.flatMap((location) => {
      const file = location.replaceAll(/[/,]/g, '_');
      return [
        plain('forecasts', api(`/gridpoints/${location}/forecast`), `${file}_forecast.json`),
        plain('forecasts', api(`/gridpoints/${location}/forecast/hourly`), `${file}_hourly.json`),
      ];
    }),
    ...config.forecastDiscussions.map((office) => ({
      ...plain('forecastDiscussions', api(`/products/types/AFD/locations/${office}`), `AFD${office}.json`),
      collections: [],
    })),
    ...config.weatherStories.map((office) => ({
      ...plain('weatherStories', api(`/offices/${office}/weatherstories`), `${office}_stories.json`),
      polled: { family: 'stories', office } as const,
    })),
    ...config.outlooks.flatMap((day) =>
      outlookFiles(day).map((file) =>
        plain('outlooks', `${config.spcBaseUrl}/products/${file}`, file.replace(/^.*\//, '')),
      ),
    ),
    ...(config.outlookDiscussions
      ? [{ ...plain('outlooks', api('/products/types/SWO'), 'SWO.json'), collections: outlookCollections }]
      : []),
    ...placeSources(config.places).map(({ path, file, hasPages }) => ({
      ...plain('places', api(path), file),
      hasPages,
    })),
  ];
}

/** Area codes of marine zones, which have neither counties nor fire-weather zones. */
const marineAreas = /^(A[MN]|GM|L[CEHMOS]|P[HKMSZ]|SL)$/;

function placeSources({ stations, zones, offices }: NwsConfig['places']): {
  path: string;
  file: string;
  hasPages: boolean;
}[] {
  return [
    ...stations.map((state) => ({
      path: `/stations?state=${state}&limit=500`,
      file: `stations_${state}.json`,
      hasPages: true,
    })),
    ...zones.flatMap((area) =>
      ['forecast', ...(marineAreas.test(area) ? [] : ['county', 'fire'])].map((type) => ({
        path: `/zones/${type}?area=${area}&include_geometry=true`,
        file: `zones_${area}_${type}.json`,
        hasPages: true,
      })),
    ),
    ...offices.map((office) => ({
      path: `/offices/${office}`,
      file: `${office}_office.json`,
      hasPages: false,
    })),
  ];
}

/** Excludes test messages and exercises, which the reader does not need. */
function alertQuery({ areas, zones }: NonNullable<NwsConfig['alerts']>): string {
  if (zones.length > 0) return `status=actual&zone=${zones.join(',')}`;
  return areas.length > 0 ? `status=actual&area=${areas.join(',')}` : 'status=actual';
}

function outlookFiles(day: number): string[] {
  if (day >= 4) return [`exper/day4-8/day${day}prob.nolyr.geojson`];
  const hazards = day === 3 ? ['cat', 'prob'] : ['cat', 'torn', 'wind', 'hail'];
  return hazards.map((hazard) => `outlook/day${day}otlk_${hazard}.nolyr.geojson`);
}
