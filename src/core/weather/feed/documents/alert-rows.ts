import { instantOf, oneOf, orNoted, textOf, type AreaRow, type Json, type Note, type Row } from './rows.ts';
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
    orNoted(note, () => oneOf(p[name], choices, name)) ?? otherwise;
  const time = (name: string): string | null =>
    textOf(p[name]) === null ? null : orNoted(note, () => instantOf(p[name], name, note));
  const [sent, effective, expires, ends] = [time('sent'), time('effective'), time('expires'), time('ends')];
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
    onset_at: time('onset'),
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
 * The areas of an alert by UGC, with the SAME codes of each. Without UGC codes, SAME codes say which counties
 * those are. Codes that are neither are noted.
 */
export function alertAreas(
  { alert_id, event, vtec }: AlertRow,
  codes: { ugcs: readonly string[]; same: readonly string[]; affected: readonly string[] },
  note: Note,
): { areas: AreaRow[]; unreadable: string[] } {
  const isNamed = codes.ugcs.length > 0 || codes.affected.length > 0;
  const { areas, unreadable } = areaCodes(
    isNamed ? codes.ugcs : zonesOfSame(codes.same),
    codes.affected,
    isFireProduct(textOf(event) ?? '', vtec),
  );
  for (const code of unreadable)
    note(`geocode has ${JSON.stringify(code.slice(0, 60))}, which names no zone; this area is unknown`);
  const rows = [...sameByUgc([...areas.keys()], codes.same)].map(([ugc, same]) => ({
    alert_id,
    ugc,
    same,
    kind: areas.get(ugc) ?? 'public',
  }));
  return { areas: rows, unreadable };
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
  const isTestCode = vtec.length > 0 && vtec.every((code) => code.startsWith('/T.'));
  const texts = [headline, description, instruction].filter((text) => typeof text === 'string');
  return (
    isTestCode ||
    (typeof event === 'string' && testEvents.test(event)) ||
    texts.some((text) => testWords.test(text))
  );
}

/** Whether every event of a message is canceled, expired or upgraded (NWSI 10-1703): it warns of nothing. */
export function isOver(vtec: readonly string[]): boolean {
  return vtec.length > 0 && vtec.every((code) => /^\/\w\.(CAN|EXP|UPG)\./.test(code));
}
