import type { Page } from '../../api/pages/render-page.ts';
import { type AlertData } from '../records/family-fields.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { converterOf } from '../units.ts';
import { alertColour, alertRank, temperatureColour, temperatureSteps } from './colours.ts';
import { coverOf, outlinesOf } from './map-cover.ts';
import { apart, type MapContent, type MapStation } from './map-layers.ts';
import { asidesOf, noticesOf } from './map-notices.ts';
import { type MapQuery, queryText, unitsText } from './map-query.ts';
import { isShownWith, states, wholeCountry } from './map-shapes.ts';
import { dataOf } from './section.ts';
import { dayName, legendOf, outlookOf, zoneOfState } from './storm-view.ts';
import {
  ageOf,
  moment,
  type Paragraph,
  paragraphsOf,
  quantity,
  skyOf,
  temperatureUnit,
  unbroken,
  unknown,
  wholeDegrees,
} from './words.ts';

/** Renders the map page. */
export function mapView(content: MapContent, base: string): Page {
  const { query, now, state, frame, areas, found, stations } = content;
  const here = `${base}weather/`;
  const where = state?.name ?? 'United States';
  const scale = frame.width / wholeCountry.width;
  const title = `Weather in ${state?.name ?? 'the United States'}`;
  const listedAlerts = query.day === null ? alertsOf(dataOf(content.alerts)?.alerts ?? [], query, now) : null;
  const totalAlerts = dataOf(content.alerts)?.total ?? 0;
  const dots = (layout: DotLayout) => (query.day === null ? dotsOf(content, { ...layout, query, here }) : []);
  const wide = dots(wideDots);
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
      tabs: tabsOf(query, here, now),
      otherUnits: query.day === null ? otherUnits(query, here) : null,
      notices: noticesOf(content),
      asides: asidesOf(content),
      frame: `${frame.left} ${frame.top} ${frame.width} ${frame.height}`,
      scale,
      wide: { ...sizesOf(scale), dots: wide, names: state === null ? [] : namesOf(wide, frame) },
      phone: { ...sizesOf(scale * phoneScale), dots: dots(phoneDots) },
      hasInsets: state === null,
      scaleOfColours: query.day === null ? scaleOfColours(query) : null,
      land: states()
        .filter((one) => state === null || isShownWith(state, one, frame))
        .map(({ code, name, coarse, fine }) => ({
          name,
          isChosen: code === state?.code,
          shape: state === null ? coarse : fine,
          href: `${here}${queryText({ ...query, state: code, q: null })}`,
        })),
      areas: areas.filter(({ shape }) => shape !== ''),
      legend: legendOf(content),
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
    },
  };
}

function weatherCrumb(query: MapContent['query'], here: string): { label: string; href: string } {
  return { label: 'Weather', href: `${here}${queryText({ ...query, state: null })}` };
}

/** The size of a temperature on the map, and the distance of its middle from its base line, in pixels. */
const fontPx = 13;
const liftPx = 4.6;
/** The full width of the map divided by its width on a phone. */
const phoneScale = 2.8;

function sizesOf(scale: number): { fontSize: number; lift: number } {
  return { fontSize: Number((fontPx * scale).toFixed(2)), lift: Number((liftPx * scale).toFixed(2)) };
}

/** How stations are drawn, as fractions of the width of the map. */
interface DotLayout {
  /** The least distance of two stations. */
  apartBy: number;
  /** The width of a disc. */
  disc: number;
}
const wideDots: DotLayout = { apartBy: 0.048, disc: 0.032 };
const phoneDots: DotLayout = { apartBy: 0.125, disc: 0.078 };

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
    tab(1, 'Storms today'),
    ...days.map((name, index) =>
      tab(index + 2, `Storms ${name.replace('Tomorrow', 'tomorrow')}`, name.replace(/^(?!To)(...).*/, '$1')),
    ),
  ];
}

function otherUnits(query: MapQuery, here: string): { label: string; href: string } {
  const units = query.units === 'us' ? 'si' : 'us';
  return { label: `Show ${temperatureUnit(units)}`, href: `${here}${unitsText({ ...query, units })}` };
}

interface Dot {
  x: number;
  y: number;
  /** True on an area, where the figure is drawn without a disc. */
  isOver: boolean;
  colour: string;
  figure: string;
  name: string;
  title: string;
  href: string;
}

/** Returns the stations to draw. None of them hides a small area, such as that of a tornado warning. */
function dotsOf(
  { shown, frame, areas }: MapContent,
  { apartBy, disc, query, here }: DotLayout & { query: MapQuery; here: string },
): Dot[] {
  const outlines = areas.flatMap(({ shape }) => outlinesOf(shape));
  const radius = (disc * frame.width) / 2;
  return apart(shown, frame, apartBy).flatMap((each) => {
    const at = insideOf(frame, each.at, radius);
    const cover = coverOf(outlines, [at.x, at.y], radius);
    return cover === 'hides' ? [] : [{ ...dotOf(each, query, here), ...at, isOver: cover === 'over' }];
  });
}

function dotOf({ place, observation }: MapStation, query: MapQuery, here: string) {
  const celsius = observation?.temperature ?? null;
  const converted = celsius === null ? null : converterOf(query.units).temperature(celsius);
  const temperature =
    converted === null
      ? unknown
      : quantity(Math.round(converted), converterOf(query.units).units.temperature);
  const sky = observation === null ? null : skyOf(observation);
  const name = place.name ?? place.id;
  return {
    colour: celsius === null ? '#d5dae0' : temperatureColour(celsius),
    figure: converted === null ? '' : String(Math.round(converted)).replace('-', '−'),
    name,
    title: [name, temperature, sky].filter((part) => part !== null).join(', '),
    href: stationHref(place.id, query, here),
  };
}

/** Moves a dot that the edge of the map would cut off. `radius` is in the units of the frame. */
function insideOf(frame: MapContent['frame'], [x, y]: MapStation['at'], radius: number) {
  const within = (value: number, from: number, size: number): number =>
    Number(Math.min(Math.max(value, from + radius), from + size - radius).toFixed(1));
  return { x: within(x, frame.left, frame.width), y: within(y, frame.top, frame.height) };
}

/** More stations than this have no names on the map of a state, and a name is cut at this length. */
const maxNames = 14;
const maxNameLength = 22;

/** Returns the names of the stations of a state, each on the side of its dot that is within the map. */
function namesOf(dots: readonly Dot[], { left, width }: MapContent['frame']): object[] {
  if (dots.length > maxNames) return [];
  const gap = width * (wideDots.disc / 2 + 0.006);
  return dots.map(({ x, y, name }) => {
    const [short = name] = name.split(',', 1);
    const isLeft = x > left + width * 0.7;
    return {
      x: Number((x + (isLeft ? -gap : gap)).toFixed(1)),
      y,
      isLeft,
      text: short.length > maxNameLength ? `${short.slice(0, maxNameLength - 1)}…` : short,
    };
  });
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

export function stationHref(id: string, { units }: Pick<MapQuery, 'units'>, here: string): string {
  return `${here}stations/${encodeURIComponent(id)}${queryText({ units })}`;
}

const maxListed = 100;
/** A complete list of so few alerts replaces the legend of their colors. */
const maxShort = 8;

function hasShortList(listed: readonly object[] | null, total: number): boolean {
  return listed !== null && listed.length > 0 && listed.length <= maxShort && listed.length >= total;
}

/** Returns the alerts to list next to the map, the most important ones first. */
function alertsOf(alerts: readonly AlertData[], { state }: MapQuery, now: Date): object[] {
  const sorted = [...alerts].sort((a, b) => alertRank(a.event) - alertRank(b.event));
  // For the whole country there can be hundreds, so list only the first few.
  return sorted.slice(0, state === null ? 25 : maxListed).map((alert) => alertLine(alert, now));
}

/**
 * Prepares an alert for a page. Its end is shown in `timeZone`, which defaults to the time zone of the
 * alert's area.
 */
export function alertLine(
  alert: AlertData,
  now: Date,
  timeZone: string | null = textHelpers.zoneOf(alert.zones, alert.geometry),
) {
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
      ({ text }) => text.replace(/\.$/, '').toLowerCase() !== event.toLowerCase(),
    ),
    action: paragraphsOf(instruction)[0]?.text ?? null,
    until,
    untilText: moment(until, timeZone),
    remaining: ends > now ? ` ${unbroken(`(in ${ageOf(now, ends)})`)}` : '',
    sender: alert.senderName,
  };
}

/** Returns the color of an alert's card, as a class. */
function severityTone(severity: AlertData['severity']): 'failure' | 'warning' | 'neutral' {
  if (severity === 'Extreme' || severity === 'Severe') return 'failure';
  return severity === 'Moderate' ? 'warning' : 'neutral';
}

function asInstruction(paragraph: Paragraph, index: number): Paragraph {
  return { ...paragraph, label: index === 0 ? 'What to do' : paragraph.label };
}
