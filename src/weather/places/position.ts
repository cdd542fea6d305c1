import lookup from '@photostructure/tz-lookup';
import type { Box, Position } from '../values.ts';

export type { Box, Position };

/**
 * Returns the box itself, or its two parts on either side of the antimeridian, each with its west before its
 * east.
 */
export function partsOf(box: Box): readonly Box[] {
  return box.west <= box.east
    ? [box]
    : [
        { ...box, east: 180 },
        { ...box, west: -180 },
      ];
}

/** Boxes around the states and territories of the United States, to detect swapped coordinates. */
const unitedStates: readonly [Box, ...Box[]] = [
  { west: -125, south: 24, east: -66, north: 50 },
  { west: 172, south: 51, east: -129, north: 72 },
  { west: -179, south: 18, east: -154, north: 29 },
  { west: -68, south: 17, east: -64, north: 19 },
  { west: 144, south: 13, east: 147, north: 21 },
  { west: -172, south: -15, east: -168, north: -10 },
];

const [contiguousStates] = unitedStates;

/** An approximation. The Storm Prediction Center issues outlooks only for these states. */
export function isInContiguousStates({ latitude, longitude }: Position): boolean {
  const { west, south, east, north } = contiguousStates;
  return longitude >= west && longitude <= east && latitude >= south && latitude <= north;
}

/** An approximation that uses a box around each part of the country. */
export function isInUnitedStates({ latitude, longitude }: Position): boolean {
  return unitedStates
    .flatMap(partsOf)
    .some(
      ({ west, south, east, north }) =>
        longitude >= west && longitude <= east && latitude >= south && latitude <= north,
    );
}

/**
 * Returns the IANA name of the time zone at a position in degrees. Off the coasts, this is a nautical zone
 * such as `Etc/GMT+5`. The library's table is too coarse at the date line. It assigns some United States
 * islands to the country across that line, which this function corrects.
 */
export function timeZoneAt(latitude: number, longitude: number): string {
  const zone = lookup(latitude, longitude);
  if (zone === 'Pacific/Apia' && longitude > -171.2) return 'Pacific/Pago_Pago';
  const isSaintLawrence = latitude < 64 && longitude > -172.2;
  const isLittleDiomede = latitude < 66 && longitude > -169;
  if (zone === 'Asia/Anadyr' && longitude < 0 && (isSaintLawrence || isLittleDiomede)) return 'America/Nome';
  return zone;
}

/** The kinds of zones and counties. Fire-weather zones have codes that public zones also have. */
export const zoneKinds = ['public', 'county', 'fire', 'marine', 'offshore'] as const;
export type ZoneKind = (typeof zoneKinds)[number];

/**
 * A zone of a certain kind, as api.weather.gov names it in URLs, such as `fire/COZ040`. Codes alone are
 * ambiguous.
 */
export type ZoneKey = `${ZoneKind}/${string}`;

export function zoneKey(ugc: string, kind: ZoneKind): ZoneKey {
  return `${kind}/${ugc}`;
}

/** Returns a key's code, such as `COZ040`. */
export function ugcOf(key: ZoneKey): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Marine and Great Lakes areas, identified by the first two letters of their zone codes. */
const marineAreas = /^(A[MN]|GM|L[CEHMOS]|P[HKMSZ]|SL)/;

/**
 * Returns a zone's kind based on the type in its source, or else on its code. `forecast` is not a separate
 * kind.
 */
export function zoneKind(ugc: string, type: string): ZoneKind {
  if (type === 'fire') return 'fire';
  if (ugc[2] === 'C') return 'county';
  if (type === 'offshore') return 'offshore';
  return marineAreas.test(ugc) ? 'marine' : 'public';
}
