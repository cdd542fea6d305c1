import type { NwsConfig, SourceName } from '../../../core/config/weather/feed.ts';
import type { PolledList } from '../tables/polls.ts';

export interface PolledDocument {
  name: SourceName;
  url: string;
  fileName: string;
  /**
   * If the document has not changed, this list's most recent run is still valid. null if there is no such
   * list.
   */
  polled: PolledList | null;
  /**
   * For a list of text products, fetch the newest product from each of these WMO collections, or just the
   * newest one if this is empty. null if the URL is not such a list.
   */
  collections: readonly string[] | null;
  /** True if the document is a list with pages, linked through `pagination.next`. */
  hasPages: boolean;
}

/** The outlooks for days 1, 2, 3 and 4 to 8. There are other SWO products that are not outlooks. */
const outlookCollections = ['ACUS01', 'ACUS02', 'ACUS03', 'ACUS48'];
const observationsEach = 12;

/** Returns everything that the configuration wants from the NWS and SPC. */
export function sourcesOf(config: NwsConfig): PolledDocument[] {
  const api = (path: string): string => `${config.baseUrl}${path}`;
  const plain = (name: SourceName, url: string, fileName: string): PolledDocument => ({
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

/** Marine areas. They have neither counties nor fire weather zones. */
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

/** Leaves out tests and exercises, because they are not shown anyway. */
function alertQuery({ areas, zones }: NonNullable<NwsConfig['alerts']>): string {
  if (zones.length > 0) return `status=actual&zone=${zones.join(',')}`;
  return areas.length > 0 ? `status=actual&area=${areas.join(',')}` : 'status=actual';
}

function outlookFiles(day: number): string[] {
  if (day >= 4) return [`exper/day4-8/day${day}prob.nolyr.geojson`];
  const hazards = day === 3 ? ['cat', 'prob'] : ['cat', 'torn', 'wind', 'hail'];
  return hazards.map((hazard) => `outlook/day${day}otlk_${hazard}.nolyr.geojson`);
}
