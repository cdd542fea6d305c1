import { type AlertData } from '../records/family-fields.ts';
import { textHelpers } from '../render/text-helpers.ts';
import { alertColour } from './colours.ts';
import { moment, type Paragraph, paragraphsOf } from './words.ts';

/** The classes of alerts that stand out. */
const tones: Readonly<Record<string, string>> = { Extreme: 'extreme', Severe: 'severe' };

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
    tone: tones[severity] ?? 'minor',
    colour: alertColour(event),
    // Most headlines repeat the kind of the alert, its end and its sender.
    headline: headline?.toLowerCase().startsWith(event.toLowerCase()) === true ? null : headline,
    area: areaDescription,
    paragraphs: [...paragraphsOf(instruction).map(asInstruction), ...paragraphsOf(description)],
    until: alert.endsAt ?? alert.expiresAt,
    untilText: moment(alert.endsAt ?? alert.expiresAt, timeZone),
    sender: alert.senderName,
  };
}

function asInstruction(paragraph: Paragraph, index: number): Paragraph & { isInstruction: boolean } {
  return { ...paragraph, label: index === 0 ? 'What to do' : paragraph.label, isInstruction: true };
}
