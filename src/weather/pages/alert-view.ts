import type { AlertData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { alertColour } from './colours.ts';
import { states } from './map-shapes.ts';
import { durationOf, joined, moment, type Paragraph, paragraphsOf, unbroken } from './words.ts';

/** An alert as the map and the pages of stations list it. */

/** The time zones of an alert on a page, and the form of its area. */
interface AlertOptions {
  /** Default: the time zone of the alert's area. */
  timeZone?: string | null;
  /** If the time differs here, it is added. The text of the alert can use it. */
  otherZone?: string | null;
  /** Whether the area begins with the names of its states. Default: false. */
  hasStates?: boolean;
}

/** Returns the time zone of an alert's area. */
export function zoneOfAlert({ zones, geometry }: Pick<AlertData, 'zones' | 'geometry'>): string | null {
  return textHelpers.zoneOf(zones, geometry);
}

/** Prepares an alert for a page. */
export function alertLine(alert: AlertData, now: Date, options: AlertOptions = {}) {
  const { timeZone = zoneOfAlert(alert), otherZone = null, hasStates = false } = options;
  const { event, severity, headline, areaDescription, description, instruction } = alert;
  const until = alert.endsAt ?? alert.expiresAt;
  return {
    event,
    severity,
    colour: alertColour(event),
    // Most headlines repeat the kind of the alert, its end and its sender.
    headline: headline?.toLowerCase().startsWith(event.toLowerCase()) === true ? null : headline,
    area: hasStates ? areaWithStates(alert) : areaDescription,
    tone: severityTone(severity),
    isDangerous: severity === 'Extreme' || severity === 'Severe',
    severityWord: severity === 'Unknown' ? null : severity,
    paragraphs: [
      ...paragraphsOf(instruction).map(asInstruction),
      ...paragraphsOf(description).map(asDescription),
    ].filter(({ text }) => !isSameText(text, event) && !isSameText(text, areaDescription)),
    action: paragraphsOf(instruction)[0]?.text ?? null,
    until,
    // Without a known end, only the message itself expires.
    untilWord: alert.endsAt === null ? 'In force until' : new Date(until) > now ? 'Ends' : 'Ended',
    untilText: moment(until, timeZone),
    untilAside: asideOf(until, { now, timeZone, otherZone }),
    sender: alert.senderName,
  };
}

/**
 * Returns the area of an alert with the names of its states, which replace their codes: `Mississippi:
 * Lauderdale; Kemper`. The area is unchanged if it has their names.
 */
function areaWithStates({ zones, areaDescription }: Pick<AlertData, 'zones' | 'areaDescription'>): string {
  const codes = new Set(zones.map((zone) => zone.slice(0, 2)));
  const named = states().filter(({ code }) => codes.has(code));
  if (named.every(({ name }) => areaDescription.includes(name))) return areaDescription;
  const [only] = named;
  const area =
    codes.size === 1 && only !== undefined
      ? areaDescription.replaceAll(new RegExp(`, ${only.code}(?=;|$)`, 'g'), '')
      : areaDescription;
  return `${joined(named.map(({ name }) => name))}: ${area}`;
}

/** Compares two texts without case, punctuation and `and`: the list of areas of an alert has `;` or `,`. */
function isSameText(one: string, other: string): boolean {
  const words = (text: string): string =>
    text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}]+|\band\b/gu, ' ')
      .replaceAll(/ +/g, ' ')
      .trim();
  return words(one) === words(other);
}

/** Returns the time in the other zone if it differs, and the remaining time: `(21:00 AKST, in 40 min)`. */
function asideOf(
  until: string,
  { now, timeZone, otherZone }: { now: Date; timeZone: string | null; otherZone: string | null },
): string {
  const here = moment(until, timeZone);
  const there = otherZone === null ? here : moment(until, otherZone);
  const day = here.split(' ').slice(0, 3).join(' ');
  const ends = new Date(until);
  const parts = [
    ...(here === there ? [] : [there.startsWith(`${day} `) ? there.slice(day.length + 1) : there]),
    ...(ends > now ? [`in ${durationOf(now, ends)}`] : []),
  ];
  return parts.length === 0 ? '' : `(${parts.map(unbroken).join(', ')})`;
}

const tones = {
  Extreme: 'failure',
  Severe: 'severe',
  Moderate: 'warning',
  Minor: 'neutral',
  Unknown: 'neutral',
} as const satisfies Record<AlertData['severity'], string>;

/** Returns the class that gives an alert the color of its severity. */
function severityTone(severity: AlertData['severity']): (typeof tones)[keyof typeof tones] {
  return tones[severity];
}

/** Replaces the label `What`, which is too similar to `What to do`. */
function asDescription(paragraph: Paragraph): Paragraph {
  return { ...paragraph, label: paragraph.label === 'What' ? 'What happens' : paragraph.label };
}

function asInstruction(paragraph: Paragraph, index: number): Paragraph {
  return { ...paragraph, label: index === 0 ? 'What to do' : paragraph.label };
}
