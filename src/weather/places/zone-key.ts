/** The kinds of zones and counties. Fire-weather zones have codes that public zones have too. */
export const zoneKinds = ['public', 'county', 'fire', 'marine', 'offshore'] as const;
export type ZoneKind = (typeof zoneKinds)[number];

/** A zone of a kind, as api.weather.gov names it in URLs: `fire/COZ040`. Codes alone are ambiguous. */
export type ZoneKey = `${ZoneKind}/${string}`;

export function zoneKey(ugc: string, kind: ZoneKind): ZoneKey {
  return `${kind}/${ugc}`;
}

/** The code of a key: `COZ040`. */
export function ugcOf(key: ZoneKey): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Areas of zones at sea and on the Great Lakes, by the first two letters of their codes. */
const marineAreas = /^(A[MN]|GM|L[CEHMOS]|P[HKMSZ]|SL)/;

/** The kind of a zone by the type that its source gives, or by its code; `forecast` is no kind of its own. */
export function zoneKind(ugc: string, type: string): ZoneKind {
  if (type === 'fire') return 'fire';
  if (ugc[2] === 'C') return 'county';
  if (type === 'offshore') return 'offshore';
  return marineAreas.test(ugc) ? 'marine' : 'public';
}
