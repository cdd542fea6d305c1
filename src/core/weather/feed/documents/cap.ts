import { alertAreas, alertRow, isOver, zonesOfSame } from './alert-rows.ts';
import { referencesIn } from './alerts.ts';
import { BrokenDocument } from './faults.ts';
import {
  instantOf,
  isMap,
  mapsOf,
  required,
  textOf,
  type Alert,
  type Json,
  type Loadable,
  type Note,
} from './rows.ts';
import { parseXml } from './xml.ts';
import { officeOfProduct } from './zone-keys.ts';

/** Elements that CAP allows several times. */
const lists = [
  'info',
  'area',
  'geocode',
  'parameter',
  'polygon',
  'circle',
  'eventCode',
  'category',
  'responseType',
];

/**
 * One CAP message, version 1.1 or 1.2, with any prefix. It adds to the alerts that are in force. Each `info`
 * is an alert of its own, as it has an event and areas of its own; translations of the first are left out.
 */
export function capOf(text: string, note: Note): Loadable {
  const parsed = parseXml(text, lists);
  const cap = isMap(parsed) && isMap(parsed['alert']) ? parsed['alert'] : {};
  const identifier = required(cap['identifier'], 'identifier');
  const infos = mapsOf(cap['info']);
  // Only a Cancel says enough without one: which messages it refers to.
  const isBareCancel = infos.length === 0 && cap['msgType'] === 'Cancel';
  if (isBareCancel) infos.push({ event: 'Cancel', expires: cap['sent'] });
  if (infos.length === 0) throw new BrokenDocument('info is missing');
  const english = infos.filter((info) => /^en\b/i.test(textOf(info['language']) ?? 'en'));
  const kept = english.length === 0 ? infos.slice(0, 1) : english;
  if (kept.length < infos.length) note(`${infos.length - kept.length} translations are left out`);
  return {
    family: 'alerts',
    isWholeList: false,
    fetchedAt: instantOf(cap['sent'], 'sent', note),
    sourceUpdatedAt: null,
    alerts: kept.map((info, index) =>
      alertOf(cap, info, {
        alert_id: index === 0 ? identifier : `${identifier}#${index + 1}`,
        note: isBareCancel ? () => undefined : note,
      }),
    ),
  };
}

function alertOf(cap: Json, info: Json, { alert_id, note }: { alert_id: string; note: Note }): Alert {
  const areas = mapsOf(info['area']);
  const sameOf = (area: Json): string[] => [
    ...valuesOf(area['geocode'], 'SAME'),
    ...valuesOf(area['geocode'], 'FIPS6'),
  ];
  const ugcsOf = (area: Json): string[] => {
    const ugcs = valuesOf(area['geocode'], 'UGC');
    return ugcs.length > 0 ? ugcs : zonesOfSame(sameOf(area));
  };
  const parameters = parametersOf(info['parameter']);
  const vtec = (parameters['VTEC'] ?? []).flatMap((value) =>
    value
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== ''),
  );
  const [awips] = parameters['AWIPSidentifier'] ?? [];
  const places = areas.map((area) => ({ area, polygons: polygonsOf(area, note) }));
  const row = alertRow(
    {
      ...info,
      alert_id,
      vtec,
      sent: cap['sent'],
      effective: info['effective'] ?? cap['sent'],
      status: cap['status'],
      messageType: cap['msgType'],
      category: firstText(info['category']),
      office: officeOfProduct(awips, vtec),
      // CAP has no end of the event; NWS gives it as a parameter.
      ends: parameters['eventEndingTime']?.[0] ?? null,
      areaDesc: areas
        .map((area) => textOf(area['areaDesc']))
        .filter((name) => name !== null)
        .join('; '),
    },
    note,
  );
  const codes = { ugcs: areas.flatMap(ugcsOf), same: areas.flatMap(sameOf), affected: [] };
  const found = alertAreas(row, codes, note);
  // An outline replaces codes, so it has to be that of every area.
  const isOutlined = places.every(({ polygons }) => polygons.length > 0);
  const polygons = isOutlined ? places.flatMap((place) => place.polygons) : [];
  const unreadable = [
    ...found.unreadable,
    ...places
      .filter(({ area, polygons }) => polygons.length === 0 && ugcsOf(area).length === 0)
      .map(({ area }) => textOf(area['areaDesc']) ?? 'an area without a name'),
  ];
  return {
    alert: {
      ...row,
      event_code: mapsOf(info['eventCode']).flatMap((code) => textOf(code['value']) ?? [])[0] ?? null,
      response: firstText(info['responseType']),
      parameters:
        unreadable.length === 0 || isOutlined ? parameters : { ...parameters, UnreadableUGC: unreadable },
      geometry: polygons.length === 0 ? null : { type: 'MultiPolygon', coordinates: polygons },
    },
    areas: found.areas,
    references: [cap['references'], ...(parameters['expiredReferences'] ?? [])]
      .flatMap((text) => referencesIn(textOf(text) ?? ''))
      .flatMap(([ref_id, sender, sent]) => {
        if (ref_id === '') return [];
        const at = new Date(sent);
        const ref_sent_at = Number.isNaN(at.getTime()) ? null : at.toISOString();
        return [{ alert_id, ref_id, ref_sender: textOf(sender), ref_sent_at }];
      }),
    listed: row['message_type'] !== 'Cancel' && !isOver(vtec),
  };
}

function firstText(value: unknown): string | null {
  return Array.isArray(value) ? textOf(value[0]) : textOf(value);
}

function valuesOf(list: unknown, name: string): string[] {
  return mapsOf(list).flatMap((item) =>
    item['valueName'] === name && textOf(item['value']) !== null ? [String(item['value'])] : [],
  );
}

function parametersOf(list: unknown): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const item of mapsOf(list)) {
    const name = textOf(item['valueName']);
    const value = textOf(item['value']);
    if (name !== null && value !== null)
      found[name] = [...(Object.hasOwn(found, name) ? (found[name] ?? []) : []), value];
  }
  return found;
}

type Ring = [longitude: number, latitude: number][];

/** Outlines of one area: its polygons, and its circles as polygons. Broken ones are noted. */
function polygonsOf(area: Json, note: Note): Ring[][] {
  const textsOf = (value: unknown): string[] =>
    (Array.isArray(value) ? value : []).flatMap((one: unknown) => textOf(one) ?? []);
  const rings = [
    ...textsOf(area['polygon']).map((text) => ({ text, ring: polygonOf(text) })),
    ...textsOf(area['circle']).map((text) => ({ text, ring: circleOf(text) })),
  ];
  return rings.flatMap(({ text, ring }) => {
    if (ring === null) note(`an area has the outline ${JSON.stringify(text.slice(0, 40))}, which is none`);
    return ring === null ? [] : [[ring]];
  });
}

/** `lat,lon lat,lon …`, closed. */
function polygonOf(text: string): Ring | null {
  const ring = text
    .trim()
    .split(/\s+/)
    .map((pair) => positionOf(pair));
  if (ring.some((position) => position === null)) return null;
  const closed = ring as Ring;
  const [first, last] = [closed[0], closed.at(-1)];
  if (first === undefined || last === undefined) return null;
  if (first[0] !== last[0] || first[1] !== last[1]) closed.push(first);
  return closed.length < 4 ? null : closed;
}

function positionOf(pair: string): [number, number] | null {
  const [latitude, longitude, ...rest] = pair.split(',').map(Number);
  if (latitude === undefined || longitude === undefined || rest.length > 0) return null;
  return Math.abs(latitude) <= 90 && Math.abs(longitude) <= 180 ? [longitude, latitude] : null;
}

const corners = 64;
const kmPerDegree = 111.195;

/** `lat,lon radius` in kilometers, as a polygon around it that leaves no part of it out. */
function circleOf(text: string): Ring | null {
  const [pair = '', radiusText = '', ...rest] = text.trim().split(/\s+/);
  const center = positionOf(pair);
  const radius = Number(radiusText);
  if (center === null || radiusText === '' || !(radius >= 0) || rest.length > 0) return null;
  const [longitude, latitude] = center;
  // A circle of no radius is a point; it still has to be found.
  const reach = Math.max(radius, 0.1) / kmPerDegree / Math.cos(Math.PI / corners);
  const radians = (degrees: number): number => (degrees * Math.PI) / 180;
  const ring = Array.from({ length: corners }, (_, index): [number, number] => {
    const bearing = (2 * Math.PI * index) / corners;
    const [from, arc] = [radians(latitude), radians(reach)];
    const to = Math.asin(Math.sin(from) * Math.cos(arc) + Math.cos(from) * Math.sin(arc) * Math.cos(bearing));
    const by = Math.atan2(
      Math.sin(bearing) * Math.sin(arc) * Math.cos(from),
      Math.cos(arc) - Math.sin(from) * Math.sin(to),
    );
    const east = longitude + (by * 180) / Math.PI;
    return [((east + 540) % 360) - 180, (to * 180) / Math.PI];
  });
  return [...ring, ring[0] as [number, number]];
}
