import type { Page } from '../../api/pages/render-page.ts';
import {
  type AlertsData,
  type ConvectiveOutlookData,
  type ForecastDiscussionData,
  type HourlyForecastData,
  type NarrativeForecastData,
  type WeatherStoriesData,
} from '../records/family-fields.ts';
import {
  type CurrentConditionsData,
  type ObservationData,
  type ObservationsData,
  type PlaceData,
} from '../records/observation-fields.ts';
import { converterOf, type UnitSystem } from '../units.ts';
import { alertLine } from './alert-view.ts';
import { daysOf, halfDaysOf, zoneOf } from './forecast-view.ts';
import { mayApply, type Unplaced } from './map-notices.ts';
import { queryText, stationHref, unitsText } from './map-query.ts';
import { states } from './map-shapes.ts';
import { meteogram } from './meteogram.ts';
import { dataOf, type Section } from './section.ts';
import { stormsOf, zoneOfState } from './storm-view.ts';
import {
  ageOf,
  cloudsOf,
  iconOf,
  moment,
  quantity,
  readableQuantity,
  skyOf,
  temperatureUnit,
  unbroken,
  wholeDegrees,
  windOf,
} from './words.ts';

export interface StationContent {
  place: PlaceData;
  now: Date;
  units: UnitSystem;
  conditions: Section<CurrentConditionsData>;
  newest: Section<ObservationData | ObservationsData>;
  alerts: Section<AlertsData>;
  unplaced: Unplaced;
  hourly: Section<HourlyForecastData>;
  narrative: Section<NarrativeForecastData>;
  outlooks: readonly Section<ConvectiveOutlookData>[];
  /** The nearest station with a current observation. null if none is near, or if this station has one. */
  nearest: NearStation | null;
  /** null if no forecast says which office is responsible. */
  discussion: Section<ForecastDiscussionData> | null;
  stories: Section<WeatherStoriesData> | null;
}

export interface NearStation {
  place: PlaceData;
  /** In degrees Celsius. null if the observation could not be read. */
  observation: ObservationData | null;
}

/** Renders the page of a weather station. */
export function stationView(content: StationContent, base: string): Page {
  const { place, now, units, alerts, hourly, narrative, discussion } = content;
  const here = `${base}weather/`;
  const name = place.name ?? place.id;
  const state = states().find(({ code }) => code === place.state);
  const forecast = dataOf(hourly);
  // One notice is enough if both are missing.
  const hasForecast = !isMissing(hourly) || !isMissing(narrative);
  const other = units === 'us' ? 'si' : 'us';
  return {
    title: `${name}: weather`,
    template: 'weather-pages/station',
    nav: 'weather',
    styles: ['weather'],
    madeAt: now.toISOString(),
    crumbs: [
      { label: 'Weather', href: `${here}${queryText({ units })}` },
      ...(state === undefined
        ? []
        : [{ label: state.name, href: `${here}${queryText({ units, state: state.code })}` }]),
      { label: name },
    ],
    view: {
      id: place.id,
      name,
      where: placeText(place),
      others: othersOf(state, units, here),
      otherUnits: {
        label: `Show ${temperatureUnit(other)}`,
        href: `${here}stations/${encodeURIComponent(place.id)}${unitsText({ units: other })}`,
      },
      present: { ...presentOf(content), nearest: nearestOf(content, here) },
      alerts: alertsOf(alerts, { place, now, unplaced: content.unplaced }),
      storms: {
        ...stormsOf(content.outlooks, { now, timeZone: place.timeZone }),
        mapHref: `${here}${queryText({ units, day: 1 })}`,
      },
      hourly: hourlyOf(content, hasForecast),
      narrative: {
        notice: hasForecast ? noticeOf(narrative, 'forecast', now) : null,
        hasOtherUnits: units === 'si',
        // Its temperatures can differ from the hours, so they are only shown if there are no hours.
        isMain: (forecast?.periods.length ?? 0) === 0 && (dataOf(narrative)?.periods.length ?? 0) > 0,
        periods: halfDaysOf(dataOf(narrative)),
      },
      discussion: discussionOf(discussion, place, now),
      stories: (content.stories === null ? [] : (dataOf(content.stories)?.stories ?? [])).map(
        ({ title, description }) => ({ title, description }),
      ),
    },
  };
}

/** Returns the days of the forecast, and their chart at both sizes. */
function hourlyOf({ hourly, units, now }: StationContent, hasForecast: boolean): object {
  const forecast = dataOf(hourly);
  return {
    notice: noticeOf(hourly, hasForecast ? 'hourly forecast' : 'forecast', now),
    pictures:
      forecast === null
        ? []
        : (['wide', 'phone'] as const).flatMap((name) => {
            const picture = meteogram(forecast, name);
            return picture === null ? [] : [{ name, ...picture }];
          }),
    zone: forecast === null ? null : zoneOf(forecast),
    unit: forecast === null ? '' : temperatureUnit(units),
    windUnit: forecast?.units.windSpeed ?? '',
    days: daysOf(forecast, now),
  };
}

/** Formats coordinates: `40.78° N, 73.97° W`. */
function placeText({ latitude, longitude }: PlaceData): string {
  const side = (degrees: number, [above, below]: readonly [string, string]): string =>
    `${Math.abs(degrees).toFixed(2)}°\u00a0${degrees < 0 ? below : above}`;
  return `${side(latitude, ['N', 'S'])}, ${side(longitude, ['E', 'W'])}`;
}

/** The next step if there is no forecast: the other stations of the state. */
function othersOf(
  state: ReturnType<typeof states>[number] | undefined,
  units: StationContent['units'],
  here: string,
): { label: string; href: string } {
  if (state === undefined) return { label: 'Find another station', href: `${here}${queryText({ units })}` };
  return {
    label: `Other stations in ${state.name}`,
    href: `${here}${queryText({ units, state: state.code })}#stations`,
  };
}

function isMissing(section: Section<object>): boolean {
  return section.kind === 'read' && section.data === null;
}

interface Notice {
  status: 'warning' | 'failure' | 'neutral';
  text: string;
}

function noticeOf(section: Section<object>, what: string, now: Date): Notice | null {
  if (section.kind === 'refused') return { status: 'failure', text: section.why };
  if (section.data === null) return { status: 'neutral', text: `No ${what} is available for this place.` };
  if (!section.stale || section.asOf === null) return null;
  return { status: 'warning', text: `This ${what} is stale: it is ${ageOf(section.asOf, now)} old.` };
}

/**
 * Returns the current conditions. Without them, returns the latest observation of the station, labeled
 * accordingly.
 */
function presentOf({ conditions, newest, hourly, place, now }: StationContent) {
  const current = dataOf(conditions);
  const found = dataOf(newest);
  const last = found === null || 'observations' in found ? null : found;
  const shown = current ?? last;
  if (shown === null) {
    const refused = conditions.kind === 'refused' ? conditions : newest.kind === 'refused' ? newest : null;
    const notice: Notice =
      refused === null
        ? { status: 'neutral', text: 'This station has reported nothing.' }
        : { status: 'failure', text: refused.why };
    return { notice, values: null };
  }
  const observedAt = new Date(shown.observedAt);
  const isStale = current === null || (conditions.kind === 'read' && conditions.stale);
  const notice: Notice | null = isStale
    ? {
        status: 'warning',
        text: `Old report: the station last reported ${unbroken(`${ageOf(observedAt, now)} ago`)}.`,
      }
    : null;
  const { units } = shown;
  const feelsLike = current?.feelsLike ?? null;
  return {
    notice,
    values: {
      temperature: wholeDegrees(shown.temperature, units.temperature),
      sky: skyOf(shown),
      icon: iconOf(skyOf(shown), isDaytimeAt(dataOf(hourly), shown.observedAt)),
      observedAt: shown.observedAt,
      observedText: moment(shown.observedAt, place.timeZone),
      // The notice has the age of a stale report.
      age: isStale ? null : unbroken(`${ageOf(observedAt, now)} ago`),
      feelsLike: feelsLike === null ? null : wholeDegrees(feelsLike, units.temperature),
      facts: [
        ['Dew point', wholeDegrees(shown.dewpoint, units.temperature)],
        ['Humidity', quantity(shown.relativeHumidity, units.relativeHumidity)],
        ['Pressure', readableQuantity(shown.altimeter ?? shown.seaLevelPressure, units.pressure)],
        ['Visibility', readableQuantity(shown.visibility, units.visibility)],
        ['Rain in the last hour', quantity(shown.precipitation1h, units.precipitation)],
        ['Wind', windOf(shown, units.windSpeed)],
        ['Clouds', cloudsOf(shown.clouds, units.cloudBase)],
      ].filter(([, value]) => value !== '' && value !== '–'),
    },
  };
}

/** Returns a link to the nearest station that reports, with its distance and its weather. */
function nearestOf({ nearest, units }: StationContent, here: string): object | null {
  if (nearest === null) return null;
  const { place, observation } = nearest;
  const celsius = observation?.temperature ?? null;
  const converter = converterOf(units);
  const sky = observation === null ? null : skyOf(observation);
  const about = [
    ...(place.distance === null ? [] : [`${quantity(place.distance, units === 'si' ? 'km' : 'mi', 0)} away`]),
    ...(celsius === null ? [] : [wholeDegrees(converter.temperature(celsius), converter.units.temperature)]),
    ...(sky === null ? [] : [sky]),
  ];
  return {
    name: place.name ?? place.id,
    href: stationHref(place.id, { units }, here),
    about: about.join(', '),
  };
}

interface PlaceAlerts {
  notices: Notice[];
  list: object[];
  /** Alerts that might apply. They come after those that certainly do. */
  uncertain: { text: string; list: object[] } | null;
  tests: string[];
}

function alertsOf(
  section: Section<AlertsData>,
  { place, now, unplaced }: Pick<StationContent, 'place' | 'now' | 'unplaced'>,
): PlaceAlerts {
  const data = dataOf(section);
  const notice = noticeOf(section, 'list of alerts', now);
  const times = {
    timeZone: place.timeZone,
    otherZone: place.state === null ? null : zoneOfState(place.state),
  };
  const list = (data?.alerts ?? []).map((alert) => alertLine(alert, now, times));
  const text = uncertainText(section, unplaced);
  const uncertain =
    text === null
      ? null
      : { text, list: unplaced.near.map((alert) => ({ ...alertLine(alert, now, times), tone: 'warning' })) };
  const tests = (data?.tests ?? []).map(
    ({ event, areaDescription }) => `Test, not a warning: ${event} (${areaDescription}).`,
  );
  const notices = notice === null ? [] : [notice];
  if (data !== null && notice === null && uncertain === null && list.length === 0)
    notices.push({ status: 'neutral', text: 'No alert is in force here.' });
  return { notices, list, uncertain, tests };
}

/** Returns a sentence about alerts that might apply here. */
function uncertainText(section: Section<AlertsData>, { near, elsewhere }: Unplaced): string | null {
  const all = dataOf(section)?.unplaced ?? 0;
  const unplaced = Math.max(all - elsewhere, near.length);
  const isCut = near.length > 0 && unplaced > near.length;
  if (unplaced > 0) return `${mayApply(unplaced)}${isCut ? `. The first ${near.length} are listed` : ''}.`;
  const isUnknown =
    section.kind === 'read' &&
    section.unknown.some(({ field, reason }) => field === 'alerts' && (reason !== 'unplaced' || all === 0));
  return isUnknown ? 'Some alerts cannot be read; one may hold here.' : null;
}

/**
 * Reports whether it is day or night at this time, according to the forecast. Without a forecast, assumes
 * that it is day.
 */
function isDaytimeAt(forecast: HourlyForecastData | null, at: string): boolean {
  const near = forecast?.periods.find(({ endsAt }) => endsAt > at);
  return near?.isDaytime ?? true;
}

function discussionOf(section: Section<ForecastDiscussionData> | null, place: PlaceData, now: Date) {
  const data = section === null ? null : dataOf(section);
  if (section === null || data === null) return null;
  return {
    office: data.office,
    issued: moment(data.issuedAt, place.timeZone),
    notice: noticeOf(section, 'discussion', now),
    text: data.text.trim(),
  };
}
