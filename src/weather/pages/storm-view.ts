import { plural } from '../../core/lib/text.ts';
import type { ConvectiveOutlookData, OutlookRiskData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { outlookColour, riskLevel, riskName } from './colours.ts';
import { statesIn } from './map-cover.ts';
import type { MapContent } from './map-layers.ts';
import { chanceUnknown, hazardsUnknown, otherHazards } from './map-notices.ts';
import { queryText } from './map-query.ts';
import { type MapArea, states } from './map-shapes.ts';
import { dataOf, type Section } from './section.ts';
import { joined, moment, weekday } from './words.ts';

/** The risk of severe storms at a place, for the page of a station, and in areas, for the map. */

type Outlook = Section<ConvectiveOutlookData>;

interface DayRisk {
  days: readonly string[];
  text: string;
  /** From 1 to 5; null if there is no risk of severe storms, or it is unknown. */
  level: number | null;
  colour: string | null;
  chances: string;
}

/** The highest level from which the outlook comes before the current weather. */
const highLevel = 3;

/**
 * Returns a line for each day if one has a risk of severe storms or the risk is unknown. Otherwise returns a
 * sentence. Days with the same text are merged.
 */
export function stormsOf(
  outlooks: readonly Outlook[],
  at: { now: Date; timeZone: string | null },
): { risks: object[]; note: string | null; isHigh: boolean } {
  const present = outlooks.filter(isPresent);
  const note = (text: string) => ({ risks: [], note: text, isHigh: false });
  if (present.length === 0) return note('No thunderstorm outlook is known.');
  if (present.every((outlook) => categoryOf(dataOf(outlook))?.reason === 'not_covered'))
    return note('The thunderstorm outlook covers only the contiguous states.');
  const risks = outlooks
    .map((outlook, index) => riskOf(outlook, dayName(index + 1, at)))
    .reduce<DayRisk[]>((merged, one) => {
      const last = merged.at(-1);
      if (last?.text !== one.text || one.chances !== '' || last.chances !== '') return [...merged, one];
      return [...merged.slice(0, -1), { ...last, days: [...last.days, ...one.days] }];
    }, []);
  const isCalm = outlooks.every((outlook) => {
    const state = isPresent(outlook) ? categoryOf(dataOf(outlook))?.state : 'none';
    return state === 'none';
  });
  if (isCalm) {
    const parts = risks.map(({ days, text }) => `${uncapital(text)} ${joined(days.map(inSentence), 'or')}`);
    return note(`Thunderstorm outlook: ${parts.join('; ')}.`);
  }
  const listed = risks.map(({ days, ...risk }) => ({ ...risk, day: joined(days) }));
  return { risks: listed, note: null, isHigh: risks.some(({ level }) => (level ?? 0) >= highLevel) };
}

/** `Today` becomes `today`; the names of weekdays keep their capital. */
function inSentence(day: string): string {
  return day.replace(/^To(?=day|morrow)/, 'to');
}

function uncapital(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

function isPresent(outlook: Outlook): boolean {
  return outlook.kind === 'read' && outlook.data !== null && !outlook.stale;
}

function categoryOf(data: ConvectiveOutlookData | null): OutlookRiskData | undefined {
  return data?.risk?.find(({ hazard }) => hazard === 'categorical');
}

function riskOf(outlook: Outlook, day: string): DayRisk {
  const data = isPresent(outlook) ? dataOf(outlook) : null;
  if (data === null)
    return { days: [day], text: 'No outlook available', level: null, colour: null, chances: '' };
  const category = categoryOf(data);
  const label = category?.category ?? null;
  return {
    days: [day],
    text: categoryText(category),
    level: label === null ? null : riskLevel(label),
    colour: label === null ? null : outlookColour({ label, fill: null }),
    chances: chancesText(data, category),
  };
}

const hazardNames = [...otherHazards, ['any_severe', 'severe storms']] as const;

/** Lists the chance of each hazard, and those that are unknown in one sentence. */
function chancesText(data: ConvectiveOutlookData, category: OutlookRiskData | undefined): string {
  // Without thunderstorms, there are no severe ones.
  if (category?.state === 'none' || category?.reason === 'not_covered') return '';
  const known: string[] = [];
  const unknown: string[] = [];
  for (const [hazard, name] of hazardNames) {
    const risk = data.risk?.find((each) => each.hazard === hazard);
    if (risk === undefined || risk.state === 'none' || risk.reason === 'not_covered') continue;
    if (risk.state === 'unknown') unknown.push(name);
    else if (risk.probability !== null) known.push(`${hazard.replace('_', ' ')} ${risk.probability}%`);
  }
  return [
    ...(known.length > 0 ? [`Chances: ${known.join(', ')}.`] : []),
    ...(unknown.length > 0 ? [chanceUnknown(unknown)] : []),
  ].join(' ');
}

/** Names a day of the outlooks as the tabs of the map do. */
export function dayName(day: number, { now, timeZone }: { now: Date; timeZone: string | null }): string {
  return ['Today', 'Tomorrow'][day - 1] ?? weekday(now, day - 1, timeZone);
}

function categoryText(category: OutlookRiskData | undefined): string {
  if (category === undefined) return 'Risk unknown';
  const { state, reason, categoryText: words, category: label } = category;
  if (reason === 'not_covered') return 'Not covered by this outlook';
  const name = label === null ? words : riskName(label, words);
  switch (state) {
    case 'outlined':
      return name ?? 'Thunderstorms are possible';
    case 'none':
      return 'No thunderstorms expected';
    case 'unknown':
      return name === null
        ? 'Risk unknown: the outlook has arrived in part'
        : `${name} or higher: the outlook has arrived in part`;
  }
}

/**
 * Returns the time zone that most of a state is in. For the whole country, returns the time zone of the Storm
 * Prediction Center.
 */
export function zoneOfState(state: string | null): string {
  return state === null ? 'America/Chicago' : textHelpers.zoneOf([`${state}Z001`]);
}

/** Returns the times of the outlook on the map, and its highest risk. */
export function outlookOf({ outlook, query, areas, state, now }: MapContent): object | null {
  const data = outlook === null ? null : dataOf(outlook);
  if (outlook?.kind !== 'read' || data === null) return null;
  const zone = zoneOfState(query.state);
  const day = inSentence(dayName(data.day, { now, timeZone: zone }));
  const highest = areas
    .filter(({ level, shape }) => level !== null && (state === null || statesIn(shape, [state]).length > 0))
    .findLast(({ shape }) => shape !== '');
  const hazards = hazardsUnknown(outlook.unknown);
  const isKnown = (outlook.unknown.length === 0 || hazards !== null) && !outlook.stale;
  const until = moment(data.validUntil, zone);
  return {
    highest: highest === undefined ? null : { ...headlineOf(highest, { day, state }), until },
    quiet:
      highest !== undefined || state === null
        ? null
        : isOutside(state)
          ? 'The outlook covers only the contiguous states.'
          : isKnown
            ? `No risk of severe storms is outlined in ${state.name} ${day}.`
            : null,
    unknown: hazards,
    times: [
      ['Issued', moment(data.issuedAt, zone)],
      ...(data.validFrom === data.issuedAt ? [] : [['Valid from', moment(data.validFrom, zone)]]),
      // The headline has the end, too.
      ...(highest === undefined ? [['Valid until', until]] : []),
      ['Source', 'Storm Prediction Center'],
    ],
  };
}

const outside: ReadonlySet<string> = new Set(['AK', 'HI']);

/** Reports whether the outlook never covers a state. */
export function isOutside(state: MapContent['state']): boolean {
  return state !== null && outside.has(state.code);
}

/** The headline names only a few states, and the legend names all of them. */
const maxNamed = 3;

function headlineOf(
  { label, level, colour, shape }: MapArea,
  at: { day: string; state: MapContent['state'] },
) {
  const names = (at.state === null ? statesIn(shape, states()) : [at.state]).map(({ name }) => name);
  const others = names.length - maxNamed;
  const named = others > 1 ? [...names.slice(0, maxNamed), plural(others, 'other state')] : names;
  return {
    text: `${label} of severe storms ${at.day}`,
    // An area can be entirely in the sea.
    place: named.length === 0 ? null : `parts of ${joined(named)}`,
    ...{ colour, level },
    tone: (level ?? 0) >= 3 ? 'failure' : 'warning',
  };
}

/**
 * Returns the entries of the map's legend, the most important ones first. The areas of an outlook have links
 * to their states, each state at its highest level.
 */
export function legendOf({ areas, state, query }: MapContent, here: string): object[] {
  const listed = new Set<string>();
  return [...areas].reverse().map((area) => {
    const isNamed = query.day !== null && state === null;
    const found = isNamed ? statesIn(area.shape, states()) : [];
    const places = found
      .filter(({ code }) => !listed.has(code))
      .map(({ code, name }) => ({ name, href: `${here}${queryText({ ...query, q: null, state: code })}` }));
    for (const { code } of found) listed.add(code);
    return { ...area, places, note: found.length > 0 ? 'Other parts of the states above' : null };
  });
}
