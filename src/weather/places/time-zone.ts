import lookup from '@photostructure/tz-lookup';

/**
 * The IANA name of the time zone of a place, in degrees; off the coasts that of the sea, as `Etc/GMT+5`.
 * Where the table of the library is too coarse, islands of the United States have their own zone and not that
 * of the country next to them, which is on the other side of the date line.
 */
export function timeZoneAt(latitude: number, longitude: number): string {
  const zone = lookup(latitude, longitude);
  if (zone === 'Pacific/Apia' && longitude > -171.2) return 'Pacific/Pago_Pago';
  const isSaintLawrence = latitude < 64 && longitude > -172.2;
  const isLittleDiomede = latitude < 66 && longitude > -169;
  if (zone === 'Asia/Anadyr' && longitude < 0 && (isSaintLawrence || isLittleDiomede)) return 'America/Nome';
  return zone;
}
