import type { Page } from '../../api/pages/render-page.ts';
import { type AlertData } from '../records/family-fields.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { converterOf } from '../units.ts';
import type { UnknownPart } from '../values.ts';
import { alertLine } from './alert-line.ts';
import { alertRank, temperatureColour } from './colours.ts';
import { apart, type MapContent, type MapStation } from './map-layers.ts';
import { type MapQuery, queryText, unitsText } from './map-query.ts';
import { overlaps, states, wholeCountry } from './map-shapes.ts';
import { dataOf } from './section.ts';
import { ageOf, moment, plural, skyOf, temperatureUnit, unknown, wholeDegrees } from './words.ts';

/** Renders the map page. */
export function mapView(content: MapContent, base: string): Page {
  const { query, now, state, frame, areas, found, stations } = content;
  const here = `${base}weather/`;
  const scale = frame.width / wholeCountry.width;
  const title = `Weather in ${state?.name ?? 'the United States'}`;
  const listedAlerts = query.day === null ? alertsOf(dataOf(content.alerts)?.alerts ?? [], query) : null;
  const totalAlerts = dataOf(content.alerts)?.total ?? 0;
  const toLine = lineMaker(content, here);
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
      title,
      where: state?.name ?? 'United States',
      here,
      state: query.state,
      q: query.q,
      day: query.day,
      units: query.units,
      states: states().map(({ code, name }) => ({ code, name })),
      tabs: tabsOf(query, here),
      otherUnits: otherUnits(query, here),
      notices: noticesOf(content),
      frame: `${frame.left} ${frame.top} ${frame.width} ${frame.height}`,
      scale,
      fontSize: Number((fontPx * scale).toFixed(2)),
      lift: Number((liftPx * scale).toFixed(2)),
      phone: {
        fontSize: Number((fontPx * scale * phoneScale).toFixed(2)),
        lift: Number((liftPx * scale * phoneScale).toFixed(2)),
        dots: dots(phoneShare),
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
      dots: dots(wideShare),
      total: stations.length,
      found: found?.map(toLine) ?? null,
      listed: state === null ? null : stations.map(toLine),
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

function tabsOf(query: MapQuery, here: string): { label: string; href: string; isCurrent: boolean }[] {
  const tab = (label: string, day: number | null) => ({
    label,
    href: `${here}${queryText({ ...query, q: null, day })}`,
    isCurrent: query.day === day,
  });
  return [tab('Alerts', null), tab('Storms today', 1), tab('Tomorrow', 2), tab('Day 3', 3)];
}

function otherUnits(query: MapQuery, here: string): { label: string; href: string } {
  const units = query.units === 'us' ? 'si' : 'us';
  return { label: `Show ${temperatureUnit(units)}`, href: `${here}${unitsText({ ...query, units })}` };
}

interface Notice {
  status: 'warning' | 'failure' | 'neutral';
  text: string;
}

/**
 * Returns notices about problems with the data. Also says that no alerts are in force, but only if that is
 * certain.
 */
function noticesOf(content: MapContent): Notice[] {
  const { alerts, outlook, now, query, shown, stations } = content;
  const notices: Notice[] = [];
  const section = outlook ?? alerts;
  const what = outlook === null ? 'Alerts' : 'The outlook';
  if (section.kind === 'refused') notices.push({ status: 'failure', text: `${what}: ${section.why}` });
  else if (section.data === null)
    notices.push({
      status: 'warning',
      text:
        outlook === null
          ? 'No poll of alerts is known, so that nothing can be said of them.'
          : 'No outlook is known for this day.',
    });
  else if (section.stale && section.asOf !== null)
    notices.push({
      status: 'warning',
      text: `${what} shown here are stale: they are ${ageOf(section.asOf, now)} old. Look elsewhere for what holds now.`,
    });
  else if (
    alerts.kind === 'read' &&
    outlook === null &&
    alerts.data?.total === 0 &&
    (alerts.data.unplaced ?? 0) === 0 &&
    alerts.unknown.length === 0
  )
    notices.push({
      status: 'neutral',
      text: `No alert is in force${query.state === null ? '' : ' here'}.`,
    });
  if (section.kind === 'read' && outlook !== null) notices.push(...unknownNotices(section.unknown));
  const drawn = new Set(content.drawnAlerts);
  const unplaced = (dataOf(alerts)?.alerts ?? []).filter(({ id }) => !drawn.has(id));
  if (outlook === null && unplaced.length > 0)
    notices.push({
      status: 'warning',
      text: `Not on the map, because their areas are unknown: ${namesOf(unplaced)}.`,
    });
  const elsewhere = dataOf(alerts)?.unplaced ?? 0;
  if (outlook === null && elsewhere > 0)
    notices.push({
      status: 'warning',
      text: `${plural(elsewhere, 'more alert')} of unknown area may apply here.`,
    });
  const tests = dataOf(alerts)?.tests ?? [];
  if (outlook === null && tests.length > 0)
    notices.push({ status: 'neutral', text: `Tests, which are not warnings: ${namesOf(tests)}.` });
  const total = dataOf(alerts)?.total ?? 0;
  const listed = dataOf(alerts)?.alerts.length ?? 0;
  if (outlook === null && total > listed)
    notices.push({ status: 'warning', text: `Shown are the ${listed} most severe of ${total} alerts.` });
  if (stations.length === 0) notices.push({ status: 'neutral', text: 'No weather station is known here.' });
  else if (shown.length === 0)
    notices.push({
      status: 'warning',
      text: 'No station has reported in the last three hours: there is no present weather to show.',
    });
  return notices;
}

/** Hazards that the map does not show, but the station pages do. */
const otherHazards = ['tornado', 'wind', 'hail'];

function unknownNotices(unknown: readonly UnknownPart[]): Notice[] {
  const others = otherHazards.filter((hazard) => unknown.some(({ field }) => field === hazard));
  if (unknown.length > others.length)
    return [
      {
        status: 'warning',
        text: 'This outlook has arrived in part: there may be a higher risk than is shown.',
      },
    ];
  if (others.length === 0) return [];
  const text = `This outlook has arrived in part. Not known yet: ${others.join(', ')}.`;
  return [{ status: 'warning', text }];
}

const maxNamed = 10;

/** Lists up to ten alerts with their areas: `Flood Watch (Kings; Queens), …`. */
function namesOf(alerts: readonly { event: string; areaDescription: string }[]): string {
  const names = alerts
    .slice(0, maxNamed)
    .map(({ event, areaDescription }) => `${event} (${areaDescription})`);
  const others = alerts.length - names.length;
  return `${names.join(', ')}${others > 0 ? ` and ${others} more` : ''}`;
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
  const temperature = temperatureText(observation, query);
  const sky = observation === null ? null : skyOf(observation);
  return {
    ...insideOf(frame, at, (share * frame.width) / 2),
    colour: celsius === null ? '#d5dae0' : temperatureColour(celsius),
    figure: temperature?.split('\u00a0')[0] ?? '',
    title: [place.name ?? place.id, temperature ?? unknown, sky].filter((part) => part !== null).join(', '),
    href: stationHref(place.id, query, here),
  };
}

function temperatureText(observation: MapStation['observation'], { units }: MapQuery): string | null {
  const celsius = observation?.temperature ?? null;
  const { temperature, units: names } = converterOf(units);
  return celsius === null ? null : wholeDegrees(temperature(celsius), names.temperature);
}

/** Moves a dot that the edge of the map would cut off. `radius` is in the units of the frame. */
function insideOf(frame: MapContent['frame'], [x, y]: MapStation['at'], radius: number) {
  const within = (value: number, from: number, size: number): number =>
    Number(Math.min(Math.max(value, from + radius), from + size - radius).toFixed(1));
  return { x: within(x, frame.left, frame.width), y: within(y, frame.top, frame.height) };
}

/** Returns a function that prepares a station for a list. */
function lineMaker({ query, now, shown }: MapContent, here: string) {
  const observations = new Map(shown.map((one) => [one.place.id, one.observation]));
  return ({ id, name, state, newestAt }: PlaceData) => ({
    id,
    name: name ?? id,
    state,
    href: stationHref(id, query, here),
    temperature: temperatureText(observations.get(id) ?? null, query),
    age: newestAt === null ? 'has reported nothing' : `${ageOf(new Date(newestAt), now)} ago`,
  });
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
 * Returns the time zone that most of a state is in. For the whole country, returns the time zone of the Storm
 * Prediction Center.
 */
function zoneOfState(state: string | null): string {
  return state === null ? 'America/Chicago' : textHelpers.zoneOf([`${state}Z001`]);
}

function outlookOf({ outlook, query }: MapContent): { text: string } | null {
  const data = outlook === null ? null : dataOf(outlook);
  if (data === null) return null;
  const zone = zoneOfState(query.state);
  return {
    text: `Convective outlook of the Storm Prediction Center for day ${query.day}, issued ${moment(data.issuedAt, zone)}, from ${moment(data.validFrom, zone)} to ${moment(data.validUntil, zone)}.`,
  };
}
