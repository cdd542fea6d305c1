/**
 * SAME codes (NWSI 10-1712): six digits, of which the first is a part of a county (0: all of it), two are
 * those of the state or marine area, and three are the county's, or the marine zone's.
 */

/** Two digits by the two letters of UGC codes: FIPS of states and territories, and those of marine areas. */
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

/** FIPS codes of states; above them are those of territories and of marine areas. */
const lastState = 56;
const islands = /^(AS|FM|GU|MH|MP|PW|PR|UM|VI)$/;
const letters = new Map(Object.entries(areas).map(([name, digits]) => [digits, name]));

/**
 * The county or marine zone that a SAME code stands for, as a UGC code; a part of a county counts as all of
 * it. Null for a whole state, whose counties the code does not name. Pure.
 */
export function ugcOfSame(code: string): string | null {
  const [, area = '', number = ''] = /^\d(\d\d)(\d{3})$/.exec(code.trim()) ?? [];
  const name = letters.get(area);
  if (name === undefined || number === '000') return null;
  return `${name}${Number(area) > lastState && !islands.test(name) ? 'Z' : 'C'}${number}`;
}

/**
 * Which SAME codes of an alert stand with which of its UGC codes, so that each stands with one and all of
 * them with some: with its county or marine zone where that is named, else with the first zone of its state,
 * else with the first of all. Which counties a zone lies in, a message does not say. Null: none. Pure.
 *
 * @param ugcs Without repetitions.
 */
export function sameByUgc(
  ugcs: readonly string[],
  codes: readonly string[],
): ReadonlyMap<string, string | null> {
  const found = new Map<string, string[]>(ugcs.map((ugc) => [ugc, []]));
  for (const code of [...new Set(codes)].sort()) {
    if (!/^\d{6}$/.test(code)) continue;
    const [area, number] = [code.slice(1, 3), code.slice(3)];
    const ofArea = ugcs.filter((ugc) => areas[ugc.slice(0, 2)] === area);
    // The numbers of forecast zones on land are not those of counties.
    const own = ofArea.find((ugc) => ugc.slice(3) === number && (ugc[2] === 'C' || Number(area) > lastState));
    const ugc = own ?? ofArea.find((each) => each[2] === 'Z') ?? ofArea[0] ?? ugcs[0];
    if (ugc !== undefined) found.get(ugc)?.push(code);
  }
  return new Map([...found].map(([ugc, own]) => [ugc, own.length === 0 ? null : own.join(' ')]));
}
