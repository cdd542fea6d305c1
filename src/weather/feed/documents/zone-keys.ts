import { zoneKey, zoneKind, type ZoneKey, type ZoneKind } from '../../places/zone-key.ts';
import { textOf } from './rows.ts';

/** UGC codes: two letters of a state or marine area, C for a county or Z for a zone, three digits. */
export const ugcPattern = /^[A-Z]{2}[CZ]\d{3}$/;

/** A zone that a message names, `https://api.weather.gov/zones/fire/COZ040`; null if it is not one. */
export function affectedZone(url: string): { ugc: string; kind: ZoneKind } | null {
  const [, type = '', code = ''] = /\/zones\/(\w+)\/(\w+)\/?$/i.exec(url.trim()) ?? [];
  const ugc = code.toUpperCase();
  return ugcPattern.test(ugc) ? { ugc, kind: zoneKind(ugc, type.toLowerCase()) } : null;
}

/**
 * The areas of an alert, each code once. A code has the kind that the message names (`affectedZones`), or
 * else the kind of the product. Codes that are not UGC, and URLs that are no zone, are `unreadable`. Zones
 * whose code another zone of the alert has are `doubled`: the tables hold one zone for a code of an alert.
 */
export function areaCodes(
  ugcs: readonly string[],
  affected: readonly string[],
  isFireProduct: boolean,
): { areas: ReadonlyMap<string, ZoneKind>; doubled: ZoneKey[]; unreadable: string[] } {
  const areas = new Map<string, ZoneKind>();
  const doubled = new Set<ZoneKey>();
  const unreadable: string[] = [];
  for (const url of affected) {
    const zone = affectedZone(url);
    if (zone === null) unreadable.push(url);
    else if ((areas.get(zone.ugc) ?? zone.kind) === zone.kind) areas.set(zone.ugc, zone.kind);
    else doubled.add(zoneKey(zone.ugc, zone.kind));
  }
  for (const code of ugcs) {
    const ugc = code.trim().toUpperCase();
    if (!ugcPattern.test(ugc)) unreadable.push(code);
    else if (!areas.has(ugc)) areas.set(ugc, zoneKind(ugc, isFireProduct ? 'fire' : ''));
  }
  return { areas, doubled: [...doubled], unreadable };
}

/** Products of fire weather are for fire zones, whose codes are also those of other, public zones. */
export function isFireProduct(event: string, vtec: readonly string[]): boolean {
  return (
    vtec.some((code) => /\.FW\.[A-Z]\./.test(code)) || /^(red flag|fire weather|extreme fire)/i.test(event)
  );
}

/** The office of a product by its own identifier (`AFDSJU` is of SJU), else by its VTEC codes. */
export function officeOfProduct(awipsId: unknown, vtec: readonly string[]): string | null {
  const [, office] = /^[A-Z0-9]{3}([A-Z0-9]{3})$/.exec(textOf(awipsId)?.trim() ?? '') ?? [];
  return office ?? /^\/\w\.\w{3}\.\w(\w{3})\./.exec(vtec[0] ?? '')?.[1] ?? null;
}
