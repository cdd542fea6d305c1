import type { Page } from '../../api/pages/render-page.ts';
import {
  type AlertsData,
  type ConvectiveOutlookData,
  type ForecastDiscussionData,
  type NarrativeForecastData,
  type WeatherStoriesData,
} from '../records/family-fields.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { alertLine } from './alert-view.ts';
import { mayApply, type Unplaced } from './map-notices.ts';
import { queryText, unitsText } from './map-query.ts';
import { states } from './map-shapes.ts';
import { meteogram } from './meteogram.ts';
import { dataOf, type Notice, noticeOf, type Section } from './section.ts';
import {
  barColoursOf,
  daysOf,
  halfDaysOf,
  nearestOf,
  type PresentContent,
  presentOf,
  zoneOf,
} from './station-weather.ts';
import { stormsOf, zoneOfState } from './storm-view.ts';
import { moment, paragraphsOf, plainCase, temperatureUnit } from './words.ts';

export interface StationContent extends PresentContent {
  alerts: Section<AlertsData>;
  unplaced: Unplaced;
  narrative: Section<NarrativeForecastData>;
  outlooks: readonly Section<ConvectiveOutlookData>[];
  /** null if no forecast says which office is responsible. */
  discussion: Section<ForecastDiscussionData> | null;
  stories: Section<WeatherStoriesData> | null;
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
    // The line below the heading has the time, so that the footer does not need it.
    scripts: ['times'],
    crumbs: [
      { label: 'Weather', href: `${here}${queryText({ units })}` },
      ...(state === undefined
        ? []
        : [{ label: state.name, href: `${here}${queryText({ units, state: state.code })}` }]),
      { label: name },
    ],
    view: {
      ...{ here, units },
      id: place.id,
      name,
      where: placeText(place),
      asOf: moment(now, place.timeZone),
      others: othersOf(state, units, here),
      otherUnits: {
        label: `Show ${temperatureUnit(other)}`,
        href: `${here}stations/${encodeURIComponent(place.id)}${unitsText({ units: other })}`,
      },
      present: { ...presentOf(content), near: nearestOf(content, here) },
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
    barColours: barColoursOf(forecast),
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

interface PlaceAlerts {
  /** True if it is certain that no alert is in force here. */
  isQuiet: boolean;
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
    text === null ? null : { text, list: unplaced.near.map((alert) => alertLine(alert, now, times)) };
  const tests = (data?.tests ?? []).map(
    ({ event, areaDescription }) => `Test, not a warning: ${event} (${areaDescription}).`,
  );
  const notices = notice === null ? [] : [notice];
  const isQuiet = data !== null && notice === null && uncertain === null && list.length === 0;
  return { isQuiet, notices, list, uncertain, tests };
}

const whatToCheck = 'Check whether you are in an area that is named here.';

/** Returns a sentence about alerts that might apply here. */
function uncertainText(section: Section<AlertsData>, { near, elsewhere }: Unplaced): string | null {
  const all = dataOf(section)?.unplaced ?? 0;
  const unplaced = Math.max(all - elsewhere, near.length);
  const isCut = near.length > 0 && unplaced > near.length;
  if (unplaced > 0)
    return `${mayApply(unplaced)}${isCut ? `. The first ${near.length} are listed` : ''}.${near.length > 0 ? ` ${whatToCheck}` : ''}`;
  const isUnknown =
    section.kind === 'read' &&
    section.unknown.some(({ field, reason }) => field === 'alerts' && (reason !== 'unplaced' || all === 0));
  return isUnknown ? 'Some alerts cannot be read; one may hold here.' : null;
}

/** Returns the sections of a discussion, or its whole text if it has none. */
function discussionOf(section: Section<ForecastDiscussionData> | null, place: PlaceData, now: Date) {
  const data = section === null ? null : dataOf(section);
  if (section === null || data === null) return null;
  return {
    office: data.office,
    issued: moment(data.issuedAt, place.timeZone),
    notice: noticeOf(section, 'discussion', now),
    sections: data.sections.map(({ heading, qualifier, body }) => ({
      heading: plainCase(heading),
      qualifier: qualifier === null ? null : plainCase(qualifier),
      paragraphs: paragraphsOf(body),
    })),
    text: data.text.trim(),
  };
}
