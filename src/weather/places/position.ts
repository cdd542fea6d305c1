import lookup from '@photostructure/tz-lookup';
import type { Box, Position } from '../values.ts';

export type { Box, Position };

/** One box, or the two on both sides of the antimeridian, each with its west before its east. */
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

/** Roughly: the Storm Prediction Center outlines these states alone. */
export function isInContiguousStates({ latitude, longitude }: Position): boolean {
  const { west, south, east, north } = contiguousStates;
  return longitude >= west && longitude <= east && latitude >= south && latitude <= north;
}

/** Roughly: within a box around each part of them. */
export function isInUnitedStates({ latitude, longitude }: Position): boolean {
  return unitedStates
    .flatMap(partsOf)
    .some(
      ({ west, south, east, north }) =>
        longitude >= west && longitude <= east && latitude >= south && latitude <= north,
    );
}

/**
 * Returns the IANA name of the time zone at a position in degrees; off the coasts, a zone of the sea such as
 * `Etc/GMT+5`. The table of the library is too coarse at the date line. Islands of the United States that it
 * assigns to the country across that line are corrected here.
 */
export function timeZoneAt(latitude: number, longitude: number): string {
  const zone = lookup(latitude, longitude);
  if (zone === 'Pacific/Apia' && longitude > -171.2) return 'Pacific/Pago_Pago';
  const isSaintLawrence = latitude < 64 && longitude > -172.2;
  const isLittleDiomede = latitude < 66 && longitude > -169;
  if (zone === 'Asia/Anadyr' && longitude < 0 && (isSaintLawrence || isLittleDiomede)) return 'America/Nome';
  return zone;
}

/** The kinds of zones and counties. Fire-weather zones have codes that public zones have too. */
export const zoneKinds = ['public', 'county', 'fire', 'marine', 'offshore'] as const;
export type ZoneKind = (typeof zoneKinds)[number];

/** A zone of a kind, as api.weather.gov names it in URLs: `fire/COZ040`. Codes alone are ambiguous. */
export type ZoneKey = `${ZoneKind}/${string}`;

export function zoneKey(ugc: string, kind: ZoneKind): ZoneKey {
  return `${kind}/${ugc}`;
}

/** Returns the code of a key: `COZ040`. */
export function ugcOf(key: ZoneKey): string {
  return key.slice(key.indexOf('/') + 1);
}

/** Areas of zones at sea and on the Great Lakes, by the first two letters of their codes. */
const marineAreas = /^(A[MN]|GM|L[CEHMOS]|P[HKMSZ]|SL)/;

/**
 * Returns the kind of a zone by the type in its source, or else by its code. `forecast` is not a separate
 * kind.
 */
export function zoneKind(ugc: string, type: string): ZoneKind {
  if (type === 'fire') return 'fire';
  if (ugc[2] === 'C') return 'county';
  if (type === 'offshore') return 'offshore';
  return marineAreas.test(ugc) ? 'marine' : 'public';
}
