import type { ConvectiveOutlookData, OutlookRiskData } from '../records/family-fields.ts';
import { outlookColour, riskLevel, riskName } from './colours.ts';
import { dataOf, type Section } from './section.ts';
import { joined, weekday } from './words.ts';

/** The risk of severe storms at a place, for the page of a station. */

type Outlook = Section<ConvectiveOutlookData>;

interface DayRisk {
  days: readonly string[];
  text: string;
  /** From 1 to 5; null if there is no risk of severe storms, or it is unknown. */
  level: number | null;
  colour: string | null;
  chances: string;
}

/** Returns a line for each day, or a note if there is nothing to list. Days with the same text are merged. */
export function stormsOf(
  outlooks: readonly Outlook[],
  at: { now: Date; timeZone: string | null },
): { risks: object[]; note: string | null; isUrgent: boolean } {
  const present = outlooks.filter(isPresent);
  if (present.length === 0) return { risks: [], note: 'No outlook is known.', isUrgent: false };
  if (present.every((outlook) => categoryOf(dataOf(outlook))?.reason === 'not_covered'))
    return { risks: [], note: 'Not covered by this outlook of the contiguous states.', isUrgent: false };
  const risks = outlooks
    .map((outlook, index) => riskOf(outlook, dayName(index + 1, at)))
    .reduce<DayRisk[]>((merged, one) => {
      const last = merged.at(-1);
      if (last?.text !== one.text || one.chances !== '' || last.chances !== '') return [...merged, one];
      return [...merged.slice(0, -1), { ...last, days: [...last.days, ...one.days] }];
    }, [])
    .map(({ days, ...risk }) => ({ ...risk, day: joined(days) }));
  return { risks, note: null, isUrgent: risks.some(({ level }) => level !== null) };
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

const hazardNames = [
  ['tornado', 'tornadoes'],
  ['wind', 'damaging wind'],
  ['hail', 'large hail'],
  ['any_severe', 'severe storms'],
] as const;

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
    ...(unknown.length > 0 ? [`The chance of ${joined(unknown)} is not known yet.`] : []),
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
