import {
  instantOf,
  oneOf,
  orNoted,
  textOf,
  type AreaRow,
  type Json,
  type Note,
  type Row,
  type Value,
} from './rows.ts';
import { sameByUgc, ugcOfSame } from './same-codes.ts';
import { areaCodes, isFireProduct } from './zone-keys.ts';

/** Rows of alerts: what the JSON of api.weather.gov and CAP have in common. */

const statuses = ['Actual', 'Exercise', 'System', 'Test', 'Draft'];
const messageTypes = ['Alert', 'Update', 'Cancel', 'Ack', 'Error'];
const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'];
const certainties = ['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown'];
const urgencies = ['Immediate', 'Expected', 'Future', 'Past', 'Unknown'];

/** The end of an alert whose end cannot be read. Readers report such an alert and do not show it. */
export const endless = 'infinity';

export type AlertRow = Row & { alert_id: string; vtec: string[] };

/** What a message says of an alert, by the names of api.weather.gov. */
type AlertFields = Json & { alert_id: string; vtec: string[] };

/**
 * The columns that a message fills. A broken field is unknown and noted. An alert whose status or type cannot
 * be read counts as actual: a warning is not dropped for a field that says little.
 */
export function alertRow(p: AlertFields, note: Note): AlertRow {
  const { alert_id, vtec } = p;
  const choice = (name: string, choices: readonly string[], otherwise: string): string =>
    orNoted(note, () => oneOf(inCaseOf(choices, p[name]), choices, name)) ?? otherwise;
  const time = (name: string): string | null =>
    textOf(p[name]) === null ? null : orNoted(note, () => instantOf(p[name], name, note));
  const [sent, effective, expires] = [time('sent'), time('effective'), time('expires')];
  const onset = time('onset');
  const ends = possibleEnd(time('ends'), { from: onset ?? sent ?? effective, expires, vtec }, note);
  if (expires === null && ends === null) note('expires is missing; the end of the alert is unknown');
  if (textOf(p['sent']) === null) note('sent is missing; read as unknown');
  const sent_at = sent ?? effective;
  const event = textOf(p['event']);
  if (event === null) note('event is missing');
  const row: AlertRow = {
    alert_id,
    // A message that does not say when it was sent has no earlier time than its own end.
    sent_at: sent_at ?? expires ?? ends ?? '1970-01-01T00:00:00.000Z',
    effective_at: effective ?? sent_at ?? expires ?? ends ?? '1970-01-01T00:00:00.000Z',
    onset_at: onset,
    expires_at: expires ?? ends ?? endless,
    ends_at: ends,
    status: choice('status', statuses, 'Actual'),
    message_type: choice('messageType', messageTypes, 'Alert'),
    category: textOf(p['category']) ?? 'Unknown',
    severity: choice('severity', severities, 'Unknown'),
    certainty: choice('certainty', certainties, 'Unknown'),
    urgency: choice('urgency', urgencies, 'Unknown'),
    event: event ?? 'Alert of an unknown kind',
    vtec,
    office: textOf(p['office']),
    sender_name: textOf(p['senderName']),
    headline: textOf(p['headline']),
    description: textOf(p['description']),
    instruction: textOf(p['instruction']),
    area_desc: textOf(p['areaDesc']) ?? 'An area that the message does not name',
    language: textOf(p['language']) ?? 'en-US',
  };
  return row['status'] === 'Actual' && isTest(row, vtec) ? { ...row, status: 'Test' } : row;
}

/**
 * The end of the event; null if it is impossible: before the event begins, in a message that expires later
 * and does not end the event. A wrong year would otherwise end a warning.
 */
function possibleEnd(
  ends: string | null,
  { from, expires, vtec }: { from: string | null; expires: string | null; vtec: readonly string[] },
  note: Note,
): string | null {
  if (ends === null || from === null || ends >= from || isOver(vtec)) return ends;
  if (expires === null || expires <= ends) return ends;
  note(`ends is ${ends}, which is before the event begins; read as unknown`);
  return null;
}

/** The text as the list of choices has it, whatever its case. */
function inCaseOf(choices: readonly string[], value: unknown): unknown {
  const text = textOf(value)?.trim().toLowerCase();
  return choices.find((choice) => choice.toLowerCase() === text) ?? value;
}

/**
 * The areas of an alert by UGC, with the SAME codes of each. Without UGC codes, SAME codes say which counties
 * those are. Codes that are neither are noted.
 */
export function alertAreas(
  { alert_id, event, vtec }: AlertRow,
  codes: { ugcs: readonly string[]; same: readonly string[]; affected: readonly string[] },
  note: Note,
): { areas: AreaRow[]; unreadable: string[] } {
  const isNamed = codes.ugcs.length > 0 || codes.affected.length > 0;
  const { areas, doubled, unreadable } = areaCodes(
    isNamed ? codes.ugcs : zonesOfSame(codes.same),
    codes.affected,
    isFireProduct(textOf(event) ?? '', vtec),
  );
  for (const code of unreadable)
    note(`geocode has ${JSON.stringify(code.slice(0, 60))}, which names no zone; this area is unknown`);
  for (const key of doubled)
    note(`affectedZones has ${key} next to another zone of this code; this area is unknown`);
  const rows = [...sameByUgc([...areas.keys()], codes.same)].map(([ugc, same]) => ({
    alert_id,
    ugc,
    same,
    kind: areas.get(ugc) ?? 'public',
  }));
  return { areas: rows, unreadable: [...unreadable, ...doubled] };
}

/** UGC codes for SAME codes; a code without one stays as it is. */
export function zonesOfSame(codes: readonly string[]): string[] {
  return codes.map((code) => ugcOfSame(code) ?? code);
}

/** Words by which a message calls itself a test, and events that are tests. */
const testWords =
  /\bthis\s+is\s+(?:only\s+)?an?\s+(?:test|exercise|drill)\b|\besto\s+es\s+(?:solo\s+)?una\s+prueba\b|\btest\s+purposes\s+only\b|\btest\s+message\b|(?:^|\n)\s*\.*\s*TEST\s*\.\.\.|\.\.\.\s*TEST\s*\.*\s*(?:$|\n)/i;
const testEvents = /^(?:test\b|required (?:weekly|monthly) test|practice)/i;

/** Whether a message says of itself that it is a test, whatever its status is. */
function isTest({ event, headline, description, instruction }: Row, vtec: readonly string[]): boolean {
  const texts = [headline, description, instruction].filter((text) => typeof text === 'string');
  return (
    everyEvent(vtec, /^\/?T\./i) ||
    (typeof event === 'string' && (testEvents.test(event) || isHeadedAsTest(headline, event))) ||
    texts.some((text) => testWords.test(text))
  );
}

/** `TEST TSUNAMI WARNING` as the headline of a Tsunami Warning. */
function isHeadedAsTest(headline: Value | undefined, event: string): boolean {
  const words = typeof headline === 'string' ? headline.toLowerCase().match(/[a-z]+/g) : null;
  return words?.[0] === 'test' && words.slice(1).join(' ').startsWith(event.toLowerCase());
}

/** Whether every event of a message is canceled, expired or upgraded (NWSI 10-1703): it warns of nothing. */
export function isOver(vtec: readonly string[]): boolean {
  return everyEvent(vtec, /^\/?[A-Z]\.(CAN|EXP|UPG)\./i);
}

/** Whether there are codes of events and all match. A code that cannot be read does not. */
function everyEvent(vtec: readonly string[], pattern: RegExp): boolean {
  const events = vtec.filter((code) => !hydrologic.test(code));
  return events.length > 0 && events.every((code) => pattern.test(code));
}

/** An H-VTEC code describes the flood of the P-VTEC code before it, and no event of its own. */
const hydrologic = /^\/?[A-Z0-9]{5}\.[A-Z0-9]\.[A-Z]{2}\./i;

/** VTEC codes one by one: some sources join several of them into one text. */
export function vtecCodes(texts: readonly string[]): string[] {
  return texts.flatMap((text) => text.split(/\s+|(?<=\/)(?=\/)/)).filter((code) => code !== '');
}
