import lookup from '@photostructure/tz-lookup';

/** The IANA name of the time zone of a place, in degrees; off the coasts that of the sea, as `Etc/GMT+5`. */
export function timeZoneAt(latitude: number, longitude: number): string {
  return lookup(latitude, longitude);
}
