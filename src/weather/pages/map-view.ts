import type { Page } from '../../api/pages/render-page.ts';
import { type AlertData } from '../records/family-fields.ts';
import { type PlaceData } from '../records/observation-fields.ts';
import { converterOf } from '../units.ts';
import { alertLine, zoneOfAlert } from './alert-view.ts';
import { alertRank, temperatureSteps } from './colours.ts';
import { frameAround } from './map-cover.ts';
import { isCurrent, layerOf, type MapContent } from './map-layers.ts';
import { asidesOf, noticesOf, testsOf } from './map-notices.ts';
import { type MapQuery, queryText, stationHref, unitsText } from './map-query.ts';
import { frameOf, isShownWith, type MapFrame, phoneRatio, states } from './map-shapes.ts';
import { dataOf } from './section.ts';
import { dayName, isOutside, legendOf, outlookOf, zoneOfState } from './storm-view.ts';
import { ageOf, moment, skyOf, temperatureUnit, unbroken, unknown, wholeDegrees } from './words.ts';

/** Renders the map page. */
export function mapView(content: MapContent, base: string): Page {
  const { query, now, state, frame, areas, found, stations } = content;
  const here = `${base}weather/`;
  const where = state?.name ?? 'United States';
  const title = `Weather in ${state?.name ?? 'the United States'}`;
  const listedAlerts = query.day === null ? alertsOf(dataOf(content.alerts)?.alerts ?? [], query, now) : null;
  const extreme = (listedAlerts ?? []).filter(({ severity }) => severity === 'Extreme').slice(0, maxExtreme);
  const totalAlerts = dataOf(content.alerts)?.total ?? 0;
  const outlined = query.day === null ? [] : areas.map(({ shape }) => shape);
  const closer = state === null ? frameAround(outlined, phoneRatio) : frameOf(state, phoneRatio);
  const land = states().filter(
    (one) => state === null || [frame, closer ?? frame].some((each) => isShownWith(state, one, each)),
  );
  return {
    title,
    template: 'weather-pages/map',
    nav: 'weather',
    styles: ['weather'],
    // The heading has the time, so that the footer does not need it.
    scripts: ['times'],
    crumbs: state === null ? [] : [weatherCrumb(query, here), { label: state.name }],
    view: {
      ...{ title, where, here, state: query.state, q: query.q, day: query.day, units: query.units },
      states: states().map(({ code, name }) => ({ code, name })),
      tabs: isOutside(state) && query.day === null ? [] : tabsOf(query, here, now),
      clearHref: `${here}${queryText({ ...query, q: null })}`,
      otherUnits: query.day === null ? otherUnits(query, here) : null,
      notices: noticesOf(content),
      ...{ asides: asidesOf(content), tests: testsOf(content) },
      frame: `${frame.left} ${frame.top} ${frame.width} ${frame.height}`,
      wide: layerOf(content, 'wide', { land, here }),
      phone:
        closer === null
          ? layerOf(content, 'phone', { land, here })
          : layerOf({ ...content, frame: closer }, 'closer', { land, here }),
      zoom: closer === null ? null : zoomTo(closer, frame),
      hasInsets: state === null && query.day === null,
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
      listed: state === null ? null : listedOf(content, here),
      asOf: moment(now, zoneOfState(query.state)),
      extreme,
      alerts: listedAlerts?.slice(extreme.length) ?? null,
      totalAlerts,
      hasShortList: hasShortList(listedAlerts, totalAlerts),
      outlook: outlookOf(content),
      isBeside: state !== null && stations.length <= maxBeside,
    },
  };
}

/**
 * Returns the transformation that fills the map of a phone with a part of the map. The map of a phone is as
 * wide as `frame` and has the same middle, but is higher.
 */
function zoomTo({ left, top, width }: MapFrame, frame: MapFrame): string {
  const upper = frame.top + (frame.height - frame.width / phoneRatio) / 2;
  const scale = (frame.width / width).toFixed(3);
  const moved = `translate(${(-left).toFixed(2)} ${(-top).toFixed(2)})`;
  return `translate(${frame.left} ${upper.toFixed(2)}) scale(${scale}) ${moved}`;
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
    tab(null, 'Now'),
    tab(1, 'Storms today'),
    ...days.map((name, index) => tab(index + 2, `Storms ${name.replace('Tomorrow', 'tomorrow')}`, name)),
  ];
}

function otherUnits(query: MapQuery, here: string): { label: string; href: string } {
  const units = query.units === 'us' ? 'si' : 'us';
  return { label: `Show ${temperatureUnit(units)}`, href: `${here}${unitsText({ ...query, units })}` };
}

/** The ends of the scale of colors in degrees Celsius, and its width in pixels. */
const scaleFrom = -30;
const scaleTo = 40;
const scalePx = 312;

/** Returns the colors of temperatures on a linear scale, and where each second one begins. */
function scaleOfColours({ units }: MapQuery): object[] {
  const { temperature } = converterOf(units);
  const placeOf = (celsius: number): number =>
    Math.round(((Math.min(celsius, scaleTo) - scaleFrom) / (scaleTo - scaleFrom)) * scalePx);
  return temperatureSteps.map(([below, colour], index) => {
    const from = temperatureSteps[index - 1]?.[0] ?? scaleFrom;
    const isNamed = index > 0 && index % 2 === 0;
    const text = isNamed ? wholeDegrees(temperature(from), 'deg').replace('\u00a0', '') : null;
    return { colour, text, x: placeOf(from), width: placeOf(below) - placeOf(from) };
  });
}

/** Returns the stations of a state with their present weather, sorted by name. Silent ones come last. */
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
    .sort(
      (a, b) => Number(a.silence !== null) - Number(b.silence !== null) || a.name.localeCompare(b.name, 'en'),
    );
}

/** Returns a sentence about a station without a current report. */
function silenceOf({ newestAt }: PlaceData, now: Date): string {
  return newestAt === null ? 'no report yet' : `no report for ${ageOf(new Date(newestAt), now)}`;
}

function lineOf(place: PlaceData, { query, here, now }: { query: MapQuery; here: string; now: Date }) {
  const { id, name, state, newestAt, newestAge } = place;
  return {
    id,
    name: name ?? id,
    state,
    href: stationHref(id, query, here),
    // Most stations report every hour, so that only an older report needs its age.
    age: (newestAge ?? 0) <= 60 || newestAt === null ? '' : unbroken(`${ageOf(new Date(newestAt), now)} ago`),
    silence: isCurrent(place) ? null : silenceOf(place, now),
  };
}

/** A phone shows so many extreme alerts above the map, and the others below it. */
const maxExtreme = 3;
/** So few stations are listed next to the map of their state. More are below it. */
const maxBeside = 12;
const maxListed = 100;
/** A complete list of so few alerts replaces the legend of their colors. */
const maxShort = 8;

function hasShortList(listed: readonly object[] | null, total: number): boolean {
  return listed !== null && listed.length > 0 && listed.length <= maxShort && listed.length >= total;
}

/** Returns the alerts to list next to the map, the most important ones first. */
function alertsOf(alerts: readonly AlertData[], { state }: MapQuery, now: Date) {
  const sorted = [...alerts].sort((a, b) => bySeverity(a, b) || alertRank(a.event) - alertRank(b.event));
  // For the whole country there can be hundreds, so list only the first few.
  return sorted
    .slice(0, state === null ? 25 : maxListed)
    .map((alert) =>
      alertLine(
        alert,
        now,
        state === null
          ? { hasStates: true }
          : { timeZone: zoneOfState(state), otherZone: zoneOfAlert(alert) },
      ),
    );
}

const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'] as const;

function bySeverity(a: AlertData, b: AlertData): number {
  return severities.indexOf(a.severity) - severities.indexOf(b.severity);
}
