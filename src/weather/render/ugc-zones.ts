import type { Geometry } from '../geometry.ts';
import { middleOf } from '../shape.ts';
import { timeZoneAt } from '../places/time-zone.ts';

/** The time zone that most of a state or marine area keeps, with the first letters of its UGC codes. */
const areas: Readonly<Record<string, string>> = {
  'America/New_York':
    'CT DC DE FL GA IN KY MA MD ME MI NC NH NJ NY OH PA RI SC VA VT WV AN AM LE LO LH LC SL',
  'America/Chicago': 'AL AR IA IL KS LA MN MO MS ND NE OK SD TN TX WI GM LM LS',
  'America/Denver': 'CO ID MT NM UT WY',
  'America/Phoenix': 'AZ',
  'America/Los_Angeles': 'CA NV OR WA PZ',
  'America/Anchorage': 'AK PK',
  'Pacific/Honolulu': 'HI PH',
  'Pacific/Pago_Pago': 'AS PS',
  'Pacific/Guam': 'GU MP PM FM MH PW',
  'America/Puerto_Rico': 'PR VI',
};
const byArea = new Map(
  Object.entries(areas).flatMap(([zone, names]) => names.split(' ').map((name) => [name, zone] as const)),
);

/**
 * The time zone of a place: that of the middle of an outline, where one is known and not at sea, else that of
 * the first area of a list of UGC codes; UTC if that is not known. For display alone.
 */
export function zoneOf(
  zones: readonly string[] | null | undefined,
  geometry: Geometry | null | undefined = null,
): string {
  return zoneWithin(geometry) ?? byArea.get(zones?.[0]?.slice(0, 2) ?? '') ?? 'UTC';
}

function zoneWithin(geometry: Geometry | null | undefined): string | null {
  const middle = middleOf(geometry);
  if (middle === null) return null;
  const zone = timeZoneAt(middle.latitude, middle.longitude);
  return zone.startsWith('Etc/') ? null : zone;
}
