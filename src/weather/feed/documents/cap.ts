import { XMLParser } from 'fast-xml-parser';
import { isRecord } from '../../../core/lib/json-document.ts';
import type { Point, Ring } from '../../shape.ts';
import { alertAreas, alertRow, isOver, vtecCodes, zonesOfSame } from './alert-rows.ts';
import { referencesIn } from './alerts.ts';
import { officeOfProduct, outlineOf } from './places.ts';
import {
  type Alert,
  BrokenDocument,
  instantOf,
  type Json,
  type Loadable,
  mapsOf,
  type Note,
  required,
  type Row,
  textOf,
  textsOf,
} from './rows.ts';

/** Elements that may be repeated according to CAP. */
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
 * Reads a CAP message, version 1.1 or 1.2, with or without a namespace prefix, and adds it to the alerts in
 * force. Each `info` becomes a separate alert, because it has its own event and areas. Translations of the
 * first `info` are skipped.
 */
export function capOf(text: string, note: Note): Loadable {
  const parsed = parseXml(text, lists);
  const cap = isRecord(parsed) && isRecord(parsed['alert']) ? parsed['alert'] : {};
  const identifier = required(cap['identifier'], 'identifier');
  const infos = mapsOf(cap['info']);
  // A Cancel needs no `info`, because it names the messages that it cancels. All other messages do.
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
  const parameters = parametersOf(info['parameter']);
  const vtec = vtecCodes(parameters['VTEC'] ?? []);
  const [awips] = parameters['AWIPSidentifier'] ?? [];
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
      // CAP has no element for the end of the event, so the NWS uses a parameter.
      ends: parameters['eventEndingTime']?.[0] ?? null,
      areaDesc: areas.flatMap((area) => textOf(area['areaDesc']) ?? []).join('; '),
    },
    note,
  );
  const codes = { ugcs: areas.flatMap(ugcsOf), same: areas.flatMap(sameOf), affected: [] };
  const found = alertAreas(row, codes, note);
  const { geometry, unknown } = placeOf(
    areas.map((area) => ({ area, ...outlinesOf(area, note), isCoded: ugcsOf(area).length > 0 })),
  );
  const unreadableCodes = [...found.unreadable, ...(geometry === null ? unknown : [])];
  if (unreadableCodes.length > 0) parameters['UnreadableUGC'] = unreadableCodes;
  if (geometry !== null && unknown.length > 0) parameters['UnreadableOutline'] = unknown;
  return {
    alert: {
      ...row,
      event_code: mapsOf(info['eventCode']).flatMap((code) => textOf(code['value']) ?? [])[0] ?? null,
      response: firstText(info['responseType']),
      parameters,
      geometry,
    },
    areas: found.areas,
    references: referencesOf(alert_id, [cap['references'], ...(parameters['expiredReferences'] ?? [])]),
    listed: row['message_type'] !== 'Cancel' && !isOver(vtec),
  };
}

function sameOf(area: Json): string[] {
  return [...valuesOf(area['geocode'], 'SAME'), ...valuesOf(area['geocode'], 'FIPS6')];
}

function ugcsOf(area: Json): string[] {
  const ugcs = valuesOf(area['geocode'], 'UGC');
  return ugcs.length > 0 ? ugcs : zonesOfSame(sameOf(area));
}

/** Returns the earlier messages that a message refers to. */
function referencesOf(alert_id: string, texts: readonly unknown[]): Alert['references'] {
  return texts
    .flatMap((text) => referencesIn(textOf(text) ?? ''))
    .flatMap(([id, sender, sent]) => {
      const ref_id = textOf(id);
      if (ref_id === null) return [];
      const at = new Date(textOf(sent) ?? NaN);
      const ref_sent_at = Number.isNaN(at.getTime()) ? null : at.toISOString();
      return [{ alert_id, ref_id, ref_sender: textOf(sender), ref_sent_at }];
    });
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

interface Outlines {
  polygons: Ring[][];
  /** True if all outlines of the area could be read. */
  isWhole: boolean;
}

/**
 * Decides where an alert applies. Uses the outlines if all areas have one that can be read, or the codes if
 * all areas have some. Otherwise it uses both, and lists the areas without a readable outline in `unknown`,
 * so that readers report that the alert may also apply elsewhere.
 */
function placeOf(areas: readonly (Outlines & { area: Json; isCoded: boolean })[]): {
  geometry: Row[string];
  unknown: string[];
} {
  const polygons = areas.flatMap((area) => area.polygons);
  const geometry = polygons.length === 0 ? null : { type: 'MultiPolygon', coordinates: polygons };
  const others = areas.filter((area) => !area.isWhole || area.polygons.length === 0);
  if (others.length === 0) return { geometry, unknown: [] };
  if (areas.every(({ isCoded }) => isCoded)) return { geometry: null, unknown: [] };
  const isNeeded = areas.some((area) => area.polygons.length > 0 && !area.isCoded);
  return {
    geometry: isNeeded ? geometry : null,
    unknown: others
      .filter(({ isCoded }) => isNeeded || !isCoded)
      .map(({ area }) => textOf(area['areaDesc']) ?? 'an area without a name'),
  };
}

/**
 * Returns the polygons of an area, including its circles as polygons. Invalid ones are reported through
 * `note`.
 */
function outlinesOf(area: Json, note: Note): Outlines {
  const rings = [
    ...textsOf(area['polygon']).map((text) => ({ text, ring: polygonOf(text, note) })),
    ...textsOf(area['circle']).map((text) => ({ text, ring: circleOf(text) })),
  ].filter(({ text }) => text.trim() !== '');
  const polygons = rings.flatMap(({ text, ring }) => {
    if (ring === null)
      note(`an area has the outline ${JSON.stringify(text.slice(0, 40))}, which is not a polygon`);
    return ring === null ? [] : [[ring]];
  });
  return { polygons, isWhole: polygons.length === rings.length };
}

/** Parses a closed ring: `lat,lon lat,lon …`. There may be spaces after the commas. */
function polygonOf(text: string, note: Note): Ring | null {
  const ring = pairsOf(text).map((pair) => positionOf(pair));
  if (ring.some((position) => position === null)) return null;
  const closed = ring as Point[];
  const first = closed[0];
  const last = closed.at(-1);
  if (first === undefined || last === undefined) return null;
  if (first[0] !== last[0] || first[1] !== last[1]) closed.push(first);
  const outline = outlineOf({ type: 'Polygon', coordinates: [closed] }, note);
  return outline === null ? null : ((outline['coordinates'] as Ring[])[0] ?? null);
}

function pairsOf(text: string): string[] {
  return text
    .replaceAll(/\s*,\s*/g, ',')
    .trim()
    .split(/\s+/);
}

const decimal = /^[-+]?(\d+\.?\d*|\.\d+)$/;

/**
 * Parses `lat,lon`, and returns longitude before latitude as in GeoJSON. The range is checked later by
 * `outlineOf`.
 */
function positionOf(pair: string): [number, number] | null {
  const [latitude, longitude, ...rest] = pair.split(',');
  if (latitude === undefined || longitude === undefined || rest.length > 0) return null;
  return decimal.test(latitude) && decimal.test(longitude) ? [Number(longitude), Number(latitude)] : null;
}

const corners = 64;
const kmPerDegree = 111.195;
/** A quarter of the Earth's circumference. Any larger radius is a mistake. */
const maxRadiusKm = 10_000;

/** Converts a circle, `lat,lon radius` in kilometers, to a polygon around it. */
function circleOf(text: string): Ring | null {
  const [pair = '', radiusText = '', ...rest] = pairsOf(text);
  const center = positionOf(pair);
  const radius = Number(radiusText);
  if (center === null || !decimal.test(radiusText) || rest.length > 0) return null;
  const [longitude, latitude] = center;
  if (Math.abs(latitude) > 90 || Math.abs(longitude) > 180 || radius < 0 || radius > maxRadiusKm) return null;
  // A radius of 0 means a point. Make it a small area that searches can find.
  const reach = Math.max(radius, 0.1) / kmPerDegree / Math.cos(Math.PI / corners);
  const radians = (degrees: number): number => (degrees * Math.PI) / 180;
  const ring = Array.from({ length: corners }, (_, index): [number, number] => {
    const bearing = (2 * Math.PI * index) / corners;
    const from = radians(latitude);
    const arc = radians(reach);
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

/**
 * Parses an XML document to nested objects, with element names as keys and strings as values. Namespace
 * prefixes are removed. `lists` contains the elements that may be repeated. A document with a DOCTYPE is
 * rejected: we do not expect one, and its entities could expand without limit.
 */
export function parseXml(text: string, lists: readonly string[]): unknown {
  if (/<!DOCTYPE/i.test(text)) throw new BrokenDocument('it has a DOCTYPE');
  const parser = new XMLParser({
    parseTagValue: false,
    removeNSPrefix: true,
    // Needed to decode numeric character references, which the parser considers HTML.
    htmlEntities: true,
    isArray: (name) => lists.includes(name),
  });
  return parser.parse(text) as unknown;
}
