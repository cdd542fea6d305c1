import lookup from '@photostructure/tz-lookup';
import type { Box, Position } from '../values.ts';

export type { Box, Position };

/**
 * Splits a box that crosses the antimeridian into two, each with west less than east. Returns other boxes
 * unchanged.
 */
export function partsOf(box: Box): readonly Box[] {
  return box.west <= box.east
    ? [box]
    : [
        { ...box, east: 180 },
        { ...box, west: -180 },
      ];
}

/** Boxes around all states and territories, used to detect swapped coordinates. */
const unitedStates: readonly [Box, ...Box[]] = [
  { west: -125, south: 24, east: -66, north: 50 },
  { west: 172, south: 51, east: -129, north: 72 },
  { west: -179, south: 18, east: -154, north: 29 },
  { west: -68, south: 17, east: -64, north: 19 },
  { west: 144, south: 13, east: 147, north: 21 },
  { west: -172, south: -15, east: -168, north: -10 },
];

const [contiguousStates] = unitedStates;

/** An approximation. The Storm Prediction Center only issues outlooks for these states. */
export function isInContiguousStates({ latitude, longitude }: Position): boolean {
  const { west, south, east, north } = contiguousStates;
  return longitude >= west && longitude <= east && latitude >= south && latitude <= north;
}

/** An approximation that checks a box around each part of the country. */
export function isInUnitedStates({ latitude, longitude }: Position): boolean {
  return unitedStates
    .flatMap(partsOf)
    .some(
      ({ west, south, east, north }) =>
        longitude >= west && longitude <= east && latitude >= south && latitude <= north,
    );
}

/**
 * Returns the time zone for coordinates in degrees, as an IANA name. At sea, it is a nautical time zone such
 * as `Etc/GMT+5`. The library is not precise enough near the date line, where it puts some islands of the
 * United States in a neighboring country, so we correct those.
 */
export function timeZoneAt(latitude: number, longitude: number): string {
  const zone = lookup(latitude, longitude);
  if (zone === 'Pacific/Apia' && longitude > -171.2) return 'Pacific/Pago_Pago';
  const isSaintLawrence = latitude < 64 && longitude > -172.2;
  const isLittleDiomede = latitude < 66 && longitude > -169;
  if (zone === 'Asia/Anadyr' && longitude < 0 && (isSaintLawrence || isLittleDiomede)) return 'America/Nome';
  return zone;
}

/** Kinds of zones. The codes of fire weather zones are also used for public zones. */
export const zoneKinds = ['public', 'county', 'fire', 'marine', 'offshore'] as const;
export type ZoneKind = (typeof zoneKinds)[number];

/** A zone and its kind, as in the URLs of api.weather.gov: `fire/COZ040`. A code alone can be ambiguous. */
export type ZoneKey = `${ZoneKind}/${string}`;

export function zoneKey(ugc: string, kind: ZoneKind): ZoneKey {
  return `${kind}/${ugc}`;
}

/** Returns the UGC code in a key: `COZ040`. */
export function ugcOf(key: ZoneKey): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Marine areas, including the Great Lakes. The code of a zone starts with one of these. */
const marineAreas = /^(A[MN]|GM|L[CEHMOS]|P[HKMSZ]|SL)/;

/**
 * Returns the kind of a zone. It is derived from the type that the source gives, or else from the code. The
 * type `forecast` covers several kinds.
 */
export function zoneKind(ugc: string, type: string): ZoneKind {
  if (type === 'fire') return 'fire';
  if (ugc[2] === 'C') return 'county';
  if (type === 'offshore') return 'offshore';
  return marineAreas.test(ugc) ? 'marine' : 'public';
}
