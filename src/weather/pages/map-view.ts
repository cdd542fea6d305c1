import type { Page } from '../../api/pages/render-page.ts';
import { type AlertData } from '../records/family-fields.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { converterOf } from '../units.ts';
import { alertColour, alertRank, temperatureSteps } from './colours.ts';
import { frameAround } from './map-cover.ts';
import { layerOf, type MapContent } from './map-layers.ts';
import { asidesOf, noticesOf } from './map-notices.ts';
import { type MapQuery, queryText, stationHref, unitsText } from './map-query.ts';
import { isShownWith, type MapFrame, states, wholeCountry } from './map-shapes.ts';
import { dataOf } from './section.ts';
import { dayName, isOutside, legendOf, outlookOf, zoneOfState } from './storm-view.ts';
import {
  ageOf,
  joined,
  moment,
  type Paragraph,
  paragraphsOf,
  skyOf,
  temperatureUnit,
  unbroken,
  unknown,
  wholeDegrees,
} from './words.ts';

/** Renders the map page. */
export function mapView(content: MapContent, base: string): Page {
  const { query, now, state, frame, areas, found, stations, shown } = content;
  const here = `${base}weather/`;
  const where = state?.name ?? 'United States';
  const title = `Weather in ${state?.name ?? 'the United States'}`;
  const listedAlerts = query.day === null ? alertsOf(dataOf(content.alerts)?.alerts ?? [], query, now) : null;
  const totalAlerts = dataOf(content.alerts)?.total ?? 0;
  const risks = areas.filter(({ level }) => level !== null).map(({ shape }) => shape);
  const zoomed = state === null ? frameAround(risks) : null;
  const land = states().filter((one) => state === null || isShownWith(state, one, frame));
  return {
    title,
    template: 'weather-pages/map',
    nav: 'weather',
    styles: ['weather'],
    isWide: true,
    madeAt: now.toISOString(),
    crumbs: state === null ? [] : [weatherCrumb(query, here), { label: state.name }],
    view: {
      ...{ title, where, here, state: query.state, q: query.q, day: query.day, units: query.units },
      states: states().map(({ code, name }) => ({ code, name })),
      tabs: isOutside(state) && query.day === null ? [] : tabsOf(query, here, now),
      example: (state === null ? null : shown[0]?.place.id) ?? 'KNYC',
      clearHref: `${here}${queryText({ ...query, q: null })}`,
      urgent: query.day === null ? urgentOf(dataOf(content.alerts)?.alerts ?? []) : null,
      otherUnits: query.day === null ? otherUnits(query, here) : null,
      notices: noticesOf(content),
      asides: asidesOf(content),
      frame: `${frame.left} ${frame.top} ${frame.width} ${frame.height}`,
      wide: layerOf(content, 'wide', { land, here }),
      phone:
        zoomed === null
          ? layerOf(content, 'phone', { land, here })
          : layerOf({ ...content, frame: zoomed }, 'zoomed', { land, here }),
      zoom: zoomed === null ? null : zoomTo(zoomed),
      hasInsets: state === null,
      scaleOfColours: query.day === null ? scaleOfColours(query) : null,
      land: land.map(({ code, name, coarse, fine }) => ({
        ...{ code, name },
        isChosen: code === state?.code,
        shape: state === null ? coarse : fine,
        href: `${here}${queryText({ ...query, state: code, q: null })}`,
      })),
      areas: areas.filter(({ shape }) => shape !== ''),
      legend: legendOf(content, here),
      total: stations.length,
      found: found?.map((place) => lineOf(place, { query, here, now })) ?? null,
      ...{
        listed: state === null ? null : listedOf(content, here),
        asOf: moment(now, zoneOfState(query.state)),
      },
      alerts: listedAlerts,
      totalAlerts,
      hasShortList: hasShortList(listedAlerts, totalAlerts),
      outlook: outlookOf(content),
      isBeside: state !== null && stations.length <= maxBeside,
    },
  };
}

/** Returns the transformation of the map of the country that shows only a part of it. */
function zoomTo({ left, top, width }: MapFrame): string {
  const scale = (wholeCountry.width / width).toFixed(3);
  return `scale(${scale}) translate(${(-left).toFixed(1)} ${(-top).toFixed(1)})`;
}

function weatherCrumb(query: MapContent['query'], here: string): { label: string; href: string } {
  return { label: 'Weather', href: `${here}${queryText({ ...query, state: null })}` };
}

interface Tab {
  label: string;
  /** For a phone, where the labels share one line. */
  short: string;
  href: string;
  isCurrent: boolean;
}

function tabsOf(query: MapQuery, here: string, now: Date): Tab[] {
  const tab = (day: number | null, label: string, short = label) => ({
    ...{ label, short },
    href: `${here}${queryText({ ...query, q: null, day })}`,
    isCurrent: query.day === day,
  });
  const days = [2, 3].map((day) => dayName(day, { now, timeZone: zoneOfState(query.state) }));
  return [
    tab(null, 'Alerts'),
    tab(1, 'Storms today', 'Storms'),
    ...days.map((name, index) =>
      tab(index + 2, `Storms ${name.replace('Tomorrow', 'tomorrow')}`, name.replace(/^(?!To)(...).*/, '$1')),
    ),
  ];
}

function otherUnits(query: MapQuery, here: string): { label: string; href: string } {
  const units = query.units === 'us' ? 'si' : 'us';
  return { label: `Show ${temperatureUnit(units)}`, href: `${here}${unitsText({ ...query, units })}` };
}

/** Returns the colors of temperatures, and the temperature at which each second one begins. */
function scaleOfColours({ units }: MapQuery): { colour: string; from: string | null }[] {
  const { temperature } = converterOf(units);
  return temperatureSteps.map(([, colour], index) => {
    const [from] = temperatureSteps[index - 1] ?? [];
    const isNamed = from !== undefined && index % 2 === 0;
    return { colour, from: isNamed ? wholeDegrees(temperature(from), 'deg').replace('\u00a0', '') : null };
  });
}

/** Returns the stations of a state with their present weather, sorted by name. */
function listedOf({ query, now, stations, observed }: MapContent, here: string): object[] {
  return stations
    .map((place) => {
      const observation = observed.get(place.id) ?? null;
      const celsius = observation?.temperature ?? null;
      const { temperature, units } = converterOf(query.units);
      return {
        ...lineOf(place, { query, here, now }),
        temperature: celsius === null ? unknown : wholeDegrees(temperature(celsius), units.temperature),
        sky: (observation === null ? null : skyOf(observation)) ?? unknown,
      };
    })
    .sort((a, b) => a.name.localeCompare(b.name, 'en'));
}

function lineOf(place: PlaceData, { query, here, now }: { query: MapQuery; here: string; now: Date }) {
  const { id, name, state, newestAt } = place;
  return {
    id,
    name: name ?? id,
    state,
    href: stationHref(id, query, here),
    age: newestAt === null ? 'has reported nothing' : unbroken(`${ageOf(new Date(newestAt), now)} ago`),
  };
}

/** Returns a line about the most dangerous alerts. It is above the map where their list is below it. */
function urgentOf(alerts: readonly AlertData[]): string | null {
  const events = new Set(alerts.filter(({ severity }) => severity === 'Extreme').map(({ event }) => event));
  return events.size === 0
    ? null
    : joined([...events].sort((a, b) => alertRank(a) - alertRank(b)).slice(0, maxUrgent));
}

const maxUrgent = 3;
/** So few stations are listed next to the map of their state. More are below it. */
const maxBeside = 12;
const maxListed = 100;
/** A complete list of so few alerts replaces the legend of their colors. */
const maxShort = 8;

function hasShortList(listed: readonly object[] | null, total: number): boolean {
  return listed !== null && listed.length > 0 && listed.length <= maxShort && listed.length >= total;
}

/** Returns the alerts to list next to the map, the most important ones first. */
function alertsOf(alerts: readonly AlertData[], { state }: MapQuery, now: Date): object[] {
  const sorted = [...alerts].sort((a, b) => bySeverity(a, b) || alertRank(a.event) - alertRank(b.event));
  // For the whole country there can be hundreds, so list only the first few.
  const otherZone = state === null ? null : zoneOfState(state);
  return sorted
    .slice(0, state === null ? 25 : maxListed)
    .map((alert) => alertLine(alert, now, { otherZone }));
}

const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'] as const;

function bySeverity(a: AlertData, b: AlertData): number {
  return severities.indexOf(a.severity) - severities.indexOf(b.severity);
}

/** The time zones of an alert on a page. */
interface AlertTimes {
  /** Default: the time zone of the alert's area. */
  timeZone?: string | null;
  /** If the time differs here, it is added. The text of the alert can use it. */
  otherZone?: string | null;
}

/** Prepares an alert for a page. */
export function alertLine(alert: AlertData, now: Date, times: AlertTimes = {}) {
  const { timeZone = textHelpers.zoneOf(alert.zones, alert.geometry), otherZone = null } = times;
  const { event, severity, headline, areaDescription, description, instruction } = alert;
  const until = alert.endsAt ?? alert.expiresAt;
  const ends = new Date(until);
  return {
    event,
    severity,
    colour: alertColour(event),
    // Most headlines repeat the kind of the alert, its end and its sender.
    headline: headline?.toLowerCase().startsWith(event.toLowerCase()) === true ? null : headline,
    area: areaDescription,
    tone: severityTone(severity),
    severityWord: severity === 'Unknown' ? null : severity,
    paragraphs: [...paragraphsOf(instruction).map(asInstruction), ...paragraphsOf(description)].filter(
      ({ text }) => !isSameText(text, event) && !isSameText(text, areaDescription),
    ),
    action: paragraphsOf(instruction)[0]?.text ?? null,
    until,
    untilText: momentInBoth(until, timeZone, otherZone),
    remaining: ends > now ? `, ${unbroken(`in ${ageOf(now, ends)}`)}` : '',
    sender: alert.senderName,
  };
}

/** Compares two texts without case and punctuation: the list of areas of an alert has `;` or `,`. */
function isSameText(one: string, other: string): boolean {
  const words = (text: string): string =>
    text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}]+/gu, ' ')
      .trim();
  return words(one) === words(other);
}

/** Formats a time in a zone, and in the other one if it differs: `Tue 20 Jan 20:00 HAST (21:00 AKST)`. */
function momentInBoth(instant: string, timeZone: string | null, otherZone: string | null): string {
  const here = moment(instant, timeZone);
  const there = otherZone === null ? here : moment(instant, otherZone);
  if (here === there) return here;
  const day = here.split(' ').slice(0, 3).join(' ');
  return `${here} (${unbroken(there.startsWith(`${day} `) ? there.slice(day.length + 1) : there)})`;
}

/** Returns the color of an alert's card, as a class. */
function severityTone(severity: AlertData['severity']): 'failure' | 'warning' | 'neutral' {
  if (severity === 'Extreme' || severity === 'Severe') return 'failure';
  return severity === 'Moderate' ? 'warning' : 'neutral';
}

function asInstruction(paragraph: Paragraph, index: number): Paragraph {
  return { ...paragraph, label: index === 0 ? 'What to do' : paragraph.label };
}
