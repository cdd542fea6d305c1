import { areaCodes, isFireProduct } from './places.ts';
import {
  type AreaRow,
  instantOf,
  type Json,
  type Note,
  oneOf,
  orNoted,
  type Row,
  textOf,
  type Value,
} from './rows.ts';

/** Converts alert messages to database rows. Used both for CAP and for the JSON of api.weather.gov. */

const statuses = ['Actual', 'Exercise', 'System', 'Test', 'Draft'];
const messageTypes = ['Alert', 'Update', 'Cancel', 'Ack', 'Error'];
const severities = ['Extreme', 'Severe', 'Moderate', 'Minor', 'Unknown'];
const certainties = ['Observed', 'Likely', 'Possible', 'Unlikely', 'Unknown'];
const urgencies = ['Immediate', 'Expected', 'Future', 'Past', 'Unknown'];

/**
 * The end of an alert whose actual end could not be read. Readers report that there is such an alert but do
 * not show it.
 */
export const endless = 'infinity';

type AlertRow = Row & { alert_id: string; vtec: string[] };

/** The fields of an alert message, named as on api.weather.gov. */
type AlertFields = Json & { alert_id: string; vtec: string[] };

/**
 * Converts a message to a row. Invalid fields are set to null and reported through `note`. If the status or
 * type is invalid, the alert is treated as real: we must not lose a warning because of such a field.
 */
export function alertRow(p: AlertFields, note: Note): AlertRow {
  const { alert_id, vtec } = p;
  const choice = (name: string, choices: readonly string[], otherwise: string): string =>
    orNoted(note, () => oneOf(inCaseOf(choices, p[name]), choices, name)) ?? otherwise;
  const time = (name: string): string | null =>
    textOf(p[name]) === null ? null : orNoted(note, () => instantOf(p[name], name, note));
  const sent = time('sent');
  const effective = time('effective');
  const expires = time('expires');
  const onset = time('onset');
  const ends = possibleEnd(time('ends'), { from: onset ?? sent ?? effective, expires, vtec }, note);
  if (expires === null && ends === null) note('expires is missing; the end of the alert is unknown');
  if (textOf(p['sent']) === null) note('sent is missing; read as unknown');
  const sent_at = sent ?? effective;
  const event = textOf(p['event']);
  if (event === null) note('event is missing');
  const row: AlertRow = {
    alert_id,
    // Without the time it was sent, the earliest time we know is when it ends.
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
 * Returns the end of the event. If it is before the beginning, although the message expires later and does
 * not cancel the event, it must be a mistake and null is returned. Otherwise, a typo in the year would end a
 * warning.
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

/** Finds a value in the list of choices, ignoring case. */
function inCaseOf(choices: readonly string[], value: unknown): unknown {
  const text = textOf(value)?.trim().toLowerCase();
  return choices.find((choice) => choice.toLowerCase() === text) ?? value;
}

/**
 * Returns the areas of an alert, by UGC code, each with its SAME codes. If there are no UGC codes, the
 * counties are derived from the SAME codes. Unknown codes are reported through `note`.
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

/** Converts SAME codes to UGC codes. Those without an equivalent are returned unchanged. */
export function zonesOfSame(codes: readonly string[]): string[] {
  return codes.map((code) => ugcOfSame(code) ?? code);
}

/** Phrases that only appear in test messages, and events that are always tests. */
const testWords =
  /\bthis\s+is\s+(?:only\s+)?an?\s+(?:test|exercise|drill)\b|\besto\s+es\s+(?:solo\s+)?una\s+prueba\b|\btest\s+purposes\s+only\b|\btest\s+message\b|(?:^|\n)\s*\.*\s*TEST\s*\.\.\.|\.\.\.\s*TEST\s*\.*\s*(?:$|\n)/i;
const testEvents = /^(?:test\b|required (?:weekly|monthly) test|practice)/i;

/** Reports whether the text of a message says that it is a test, regardless of its status. */
function isTest({ event, headline, description, instruction }: Row, vtec: readonly string[]): boolean {
  const texts = [headline, description, instruction].filter((text) => typeof text === 'string');
  return (
    everyEvent(vtec, /^\/?T\./i) ||
    (typeof event === 'string' && (testEvents.test(event) || isHeadedAsTest(headline, event))) ||
    texts.some((text) => testWords.test(text))
  );
}

/** Recognizes headlines such as `TEST TSUNAMI WARNING` for a Tsunami Warning. */
function isHeadedAsTest(headline: Value | undefined, event: string): boolean {
  const words = typeof headline === 'string' ? headline.toLowerCase().match(/[a-z]+/g) : null;
  return words?.[0] === 'test' && words.slice(1).join(' ').startsWith(event.toLowerCase());
}

/**
 * Reports whether all events of a message have been canceled, upgraded or expired, according to their VTEC
 * codes (NWSI 10-1703). Such a message no longer warns of anything.
 */
export function isOver(vtec: readonly string[]): boolean {
  return everyEvent(vtec, /^\/?[A-Z]\.(CAN|EXP|UPG)\./i);
}

/**
 * Reports whether all event codes match the pattern. Returns false if there are none. Unreadable codes do not
 * match.
 */
function everyEvent(vtec: readonly string[], pattern: RegExp): boolean {
  const events = vtec.filter((code) => !hydrologic.test(code));
  return events.length > 0 && events.every((code) => pattern.test(code));
}

/**
 * Matches H-VTEC codes. They only describe the flood of the preceding P-VTEC code and are not separate
 * events.
 */
const hydrologic = /^\/?[A-Z0-9]{5}\.[A-Z0-9]\.[A-Z]{2}\./i;

/** Splits strings into VTEC codes, because some sources put several codes in one string. */
export function vtecCodes(texts: readonly string[]): string[] {
  return texts.flatMap((text) => text.split(/\s+|(?<=\/)(?=\/)/)).filter((code) => code !== '');
}

/**
 * SAME codes (NWSI 10-1712) have six digits. The first one stands for a part of the county, or is 0 for the
 * whole county. The next two are the state or marine area, and the last three are the county or marine zone.
 */

/**
 * FIPS codes of states and territories, and the codes of marine areas. The keys are the first two letters of
 * the corresponding UGC codes.
 */
const areas: Readonly<Record<string, string>> = Object.fromEntries(
  (
    'AL01 AK02 AZ04 AR05 CA06 CO08 CT09 DE10 DC11 FL12 GA13 HI15 ID16 IL17 IN18 IA19 KS20 KY21 LA22 ME23 MD24 ' +
    'MA25 MI26 MN27 MS28 MO29 MT30 NE31 NV32 NH33 NJ34 NM35 NY36 NC37 ND38 OH39 OK40 OR41 PA42 RI44 SC45 SD46 ' +
    'TN47 TX48 UT49 VT50 VA51 WA53 WV54 WI55 WY56 AS60 FM64 GU66 MH68 MP69 PW70 PR72 UM74 VI78 ' +
    'PZ57 PK58 PH59 PS61 PM65 AN73 AM75 GM77 LS91 LM92 LH93 LC94 LE96 LO97 SL98'
  )
    .split(' ')
    .map((area) => [area.slice(0, 2), area.slice(2)]),
);

/** The highest FIPS code of a state. Above it are territories and marine areas. */
const lastState = 56;
const islands = /^(AS|FM|GU|MH|MP|PW|PR|UM|VI)$/;
const letters = new Map(Object.entries(areas).map(([name, digits]) => [digits, name]));

/**
 * Converts a SAME code to the UGC code of the county or marine zone. The code of a part of a county becomes
 * the whole county. Returns null if the code is for a whole state, because we do not know its counties.
 */
function ugcOfSame(code: string): string | null {
  const [, area = '', number = ''] = /^\d(\d\d)(\d{3})$/.exec(code.trim()) ?? [];
  const name = letters.get(area);
  if (name === undefined || number === '000') return null;
  return `${name}${Number(area) > lastState && !islands.test(name) ? 'Z' : 'C'}${number}`;
}

/**
 * Decides which SAME codes to store with which UGC code of an alert. This is the same county or marine zone
 * if the alert lists it; otherwise the first zone of the same state, or else simply the first code, since
 * messages do not say which counties a zone covers. UGC codes without any SAME codes are mapped to null.
 *
 * @param ugcs Must not contain duplicates.
 */
export function sameByUgc(
  ugcs: readonly string[],
  codes: readonly string[],
): ReadonlyMap<string, string | null> {
  const found = new Map<string, string[]>(ugcs.map((ugc) => [ugc, []]));
  for (const code of [...new Set(codes)].sort()) {
    if (!/^\d{6}$/.test(code)) continue;
    const area = code.slice(1, 3);
    const number = code.slice(3);
    const ofArea = ugcs.filter((ugc) => areas[ugc.slice(0, 2)] === area);
    // Only for counties and marine zones. Forecast zones on land are numbered differently.
    const own = ofArea.find((ugc) => ugc.slice(3) === number && (ugc[2] === 'C' || Number(area) > lastState));
    const ugc = own ?? ofArea.find((each) => each[2] === 'Z') ?? ofArea[0] ?? ugcs[0];
    if (ugc !== undefined) found.get(ugc)?.push(code);
  }
  return new Map([...found].map(([ugc, own]) => [ugc, own.length === 0 ? null : own.join(' ')]));
}
