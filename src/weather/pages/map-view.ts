import type { Page } from '../../api/pages/render-page.ts';
import { type AlertData } from '../records/family-fields.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { converterOf } from '../units.ts';
import { alertColour, alertRank, temperatureColour } from './colours.ts';
import { apart, type MapContent, type MapStation } from './map-layers.ts';
import { hazardsUnknown, noticesOf } from './map-notices.ts';
import { type MapQuery, queryText, unitsText } from './map-query.ts';
import { overlaps, states, wholeCountry } from './map-shapes.ts';
import { dataOf } from './section.ts';
import { dayName } from './storm-view.ts';
import {
  ageOf,
  moment,
  type Paragraph,
  paragraphsOf,
  quantity,
  skyOf,
  temperatureUnit,
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
  const listedAlerts = query.day === null ? alertsOf(dataOf(content.alerts)?.alerts ?? [], query) : null;
  const totalAlerts = dataOf(content.alerts)?.total ?? 0;
  const dots = (share: number) =>
    apart(content.shown, frame, share).map((each) => dotOf(each, { query, here, frame, share }));
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
      otherUnits: otherUnits(query, here),
      notices: noticesOf(content),
      frame: `${frame.left} ${frame.top} ${frame.width} ${frame.height}`,
      scale,
      fontSize: Number((fontPx * scale).toFixed(2)),
      lift: Number((liftPx * scale).toFixed(2)),
      phone: {
        fontSize: Number((fontPx * scale * phoneScale).toFixed(2)),
        lift: Number((liftPx * scale * phoneScale).toFixed(2)),
        dots: query.day === null ? dots(phoneShare) : [],
      },
      land: states()
        .filter(({ box }) => state === null || overlaps(frame, box))
        .map(({ code, name, coarse, fine }) => ({
          name,
          isChosen: code === state?.code,
          shape: state === null ? coarse : fine,
          href: `${here}${queryText({ ...query, state: code, q: null })}`,
        })),
      areas: areas.filter(({ shape }) => shape !== ''),
      legend: [...areas].reverse(),
      dots: query.day === null ? dots(wideShare) : [],
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
const phoneScale = 3;
/** The width of a temperature on the map, as a fraction of the map's width. */
const phoneShare = 0.11;
const wideShare = 0.031;

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

interface DotPlace {
  query: MapQuery;
  here: string;
  frame: MapContent['frame'];
  /** The width of a dot, as a fraction of the map's width. */
  share: number;
}

function dotOf({ place, at, observation }: MapStation, { query, here, frame, share }: DotPlace) {
  const celsius = observation?.temperature ?? null;
  const converted = celsius === null ? null : converterOf(query.units).temperature(celsius);
  const temperature =
    converted === null
      ? unknown
      : quantity(Math.round(converted), converterOf(query.units).units.temperature);
  const sky = observation === null ? null : skyOf(observation);
  return {
    ...insideOf(frame, at, (share * frame.width) / 2),
    colour: celsius === null ? '#d5dae0' : temperatureColour(celsius),
    figure: converted === null ? '' : String(Math.round(converted)).replace('-', '−'),
    title: [place.name ?? place.id, temperature, sky].filter((part) => part !== null).join(', '),
    href: stationHref(place.id, query, here),
  };
}

/** Moves a dot that the edge of the map would cut off. `radius` is in the units of the frame. */
function insideOf(frame: MapContent['frame'], [x, y]: MapStation['at'], radius: number) {
  const within = (value: number, from: number, size: number): number =>
    Number(Math.min(Math.max(value, from + radius), from + size - radius).toFixed(1));
  return { x: within(x, frame.left, frame.width), y: within(y, frame.top, frame.height) };
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
        temperature: celsius === null ? '' : wholeDegrees(temperature(celsius), units.temperature),
        sky: observation === null ? '' : (skyOf(observation) ?? ''),
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
    age: newestAt === null ? 'has reported nothing' : `${ageOf(new Date(newestAt), now)} ago`,
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
function alertsOf(alerts: readonly AlertData[], { state }: MapQuery): object[] {
  const sorted = [...alerts].sort((a, b) => alertRank(a.event) - alertRank(b.event));
  // For the whole country there can be hundreds, so list only the first few.
  return sorted.slice(0, state === null ? 25 : maxListed).map((alert) => alertLine(alert));
}

/**
 * Prepares an alert for a page. Its end is shown in `timeZone`, which defaults to the time zone of the
 * alert's area.
 */
export function alertLine(
  alert: AlertData,
  timeZone: string | null = textHelpers.zoneOf(alert.zones, alert.geometry),
) {
  const { event, severity, headline, areaDescription, description, instruction } = alert;
  return {
    event,
    severity,
    colour: alertColour(event),
    // Most headlines repeat the kind of the alert, its end and its sender.
    headline: headline?.toLowerCase().startsWith(event.toLowerCase()) === true ? null : headline,
    area: areaDescription,
    tone: severityTone(severity),
    severityWord: severity === 'Unknown' ? null : severity,
    paragraphs: [...paragraphsOf(instruction).map(asInstruction), ...paragraphsOf(description)],
    until: alert.endsAt ?? alert.expiresAt,
    untilText: moment(alert.endsAt ?? alert.expiresAt, timeZone),
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

/**
 * Returns the time zone that most of a state is in. For the whole country, returns the time zone of the Storm
 * Prediction Center.
 */
function zoneOfState(state: string | null): string {
  return state === null ? 'America/Chicago' : textHelpers.zoneOf([`${state}Z001`]);
}

function outlookOf({ outlook, query, areas, now }: MapContent): object | null {
  const data = outlook === null ? null : dataOf(outlook);
  if (outlook?.kind !== 'read' || data === null) return null;
  const zone = zoneOfState(query.state);
  const day = dayName(data.day, { now, timeZone: zone });
  const highest = areas.filter(({ level, shape }) => level !== null && shape !== '').at(-1);
  return {
    highest:
      highest === undefined
        ? null
        : {
            text: `${highest.label} of severe storms ${day.replace(/^To/, 'to')}`,
            level: highest.level,
            tone: (highest.level ?? 0) >= 3 ? 'failure' : 'warning',
          },
    unknown: hazardsUnknown(outlook.unknown),
    times: [
      ['Issued', moment(data.issuedAt, zone)],
      ['Valid from', moment(data.validFrom, zone)],
      ['Valid until', moment(data.validUntil, zone)],
    ],
  };
}
