import { isRecord } from '../../../core/lib/json-document.ts';
import { alertAreas, alertRow, endless, isOver, vtecCodes } from './alert-rows.ts';
import { officeOfProduct, outlineOf } from './places.ts';
import {
  type Alert,
  BrokenDocument,
  instantOf,
  itemsOf,
  type Json,
  type Loadable,
  type Note,
  optionalInstant,
  reasonOf,
  required,
  textOf,
  textsOf,
} from './rows.ts';

/**
 * Reads a list of alerts from api.weather.gov. Invalid fields are set to null and reported through `note`. If
 * an alert cannot be read at all, it is stored without an end, so that readers mention it instead of saying
 * that there are no alerts. A list that continues on another page is rejected, because alerts missing from it
 * would be considered over.
 */
export function alertsOf(
  collection: Json,
  { leftOut, isPoll }: { leftOut: string[]; isPoll: boolean },
): Loadable {
  if (isPoll && isRecord(collection['pagination']) && textOf(collection['pagination']['next']) !== null)
    throw new BrokenDocument('pagination.next names a further page, and one page alone is not a poll');
  const features = itemsOf(collection['features']);
  const updated = optionalInstant(collection['updated'] ?? collection['@saved'], 'updated', (message) =>
    leftOut.push(message),
  );
  const all: Alert[] = [];
  const seen = new Set<string>();
  const broken: { place: string; feature: Json; reason: string }[] = [];
  for (const [index, feature] of features.entries()) {
    const place = `features[${index}]`;
    try {
      const item = alertOf(feature, (message) => leftOut.push(`${place}: ${message}`));
      // Messages with the same identifier are copies.
      if (!seen.has(item.alert.alert_id)) all.push(item);
      seen.add(item.alert.alert_id);
    } catch (error) {
      broken.push({ place, feature, reason: reasonOf(error) });
    }
  }
  if (all.length === 0 && broken[0] !== undefined)
    throw new BrokenDocument(`${broken[0].place}: ${broken[0].reason}`);
  const newest = all
    .map(({ alert }) => required(alert['sent_at'], 'sent'))
    .sort()
    .at(-1);
  const fetchedAt = updated ?? instantOf(newest, 'updated');
  for (const { place, feature, reason } of broken) {
    leftOut.push(`${place}: ${reason}`);
    all.push(unreadableAlert(feature, fetchedAt));
  }
  const ended = endedIn(all);
  return {
    family: 'alerts',
    isWholeList: true,
    fetchedAt,
    sourceUpdatedAt: updated,
    alerts: all.map((item) => ({ ...item, listed: item.listed && !ended.has(item) })),
  };
}

/**
 * Returns the alerts that are superseded by another message in the list. An Update supersedes the alerts that
 * it refers to. A Cancel does so too, unless it only covers some of their areas. Both messages must have the
 * same status, because an exercise must not end a real warning.
 */
function endedIn(all: readonly Alert[]): ReadonlySet<Alert> {
  const byId = new Map(all.map((one) => [one.alert.alert_id, one]));
  const ended = new Set<Alert>();
  for (const later of all)
    for (const { ref_id } of later.references) {
      const one = byId.get(textOf(ref_id) ?? '');
      if (one !== undefined && one !== later && ends(later, one)) ended.add(one);
    }
  return ended;
}

function ends(later: Alert, { alert, areas }: Alert): boolean {
  const { status, message_type: type } = later.alert;
  if (status !== alert['status']) return false;
  if (type !== 'Cancel') return type === 'Update';
  const canceled = new Set(later.areas.map(({ ugc }) => ugc));
  return canceled.size === 0 || areas.every(({ ugc }) => canceled.has(ugc));
}

type Reference = [identifier: unknown, sender: unknown, sent: unknown];

/** Parses a list of references as in CAP: `sender,identifier,sent`, separated by spaces. */
export function referencesIn(text: string): Reference[] {
  return text
    .split(/\s+/)
    .filter((one) => one !== '')
    .map((one) => one.split(','))
    .map(([sender, identifier, sent]) => [identifier ?? idOfUrl(sender), sender, sent]);
}

/** Reads references that can be objects, strings as in CAP, or URLs of alerts. */
function referencesOf(list: unknown): Reference[] {
  return [list ?? []].flat().flatMap((item): Reference[] => {
    if (typeof item === 'string') return referencesIn(item);
    const { identifier, sender, sent, '@id': url } = isRecord(item) ? item : {};
    return [[textOf(identifier) ?? idOfUrl(url), sender, sent]];
  });
}

/**
 * Returns the identifier at the end of a URL such as `https://api.weather.gov/alerts/…`. Returns null for
 * other URLs.
 */
function idOfUrl(url: unknown): string | null {
  return /\/alerts\/([^/?#]+)$/.exec(textOf(url)?.trim() ?? '')?.[1] ?? null;
}

function alertOf(feature: Json, note: Note): Alert {
  const p = isRecord(feature['properties']) ? feature['properties'] : {};
  const alert_id = required(textOf(p['id']) ?? idOfUrl(feature['id']) ?? feature['id'], 'properties.id');
  const geocode = isRecord(p['geocode']) ? p['geocode'] : {};
  const parameters = isRecord(p['parameters']) ? p['parameters'] : {};
  const vtec = vtecCodes(textsOf(parameters['VTEC']));
  const eventCode = isRecord(p['eventCode']) ? p['eventCode'] : {};
  const [awips] = textsOf(parameters['AWIPSidentifier']);
  const row = alertRow({ ...p, alert_id, office: officeOfProduct(awips, vtec), vtec }, note);
  const { areas, unreadable } = alertAreas(
    row,
    { ugcs: textsOf(geocode['UGC']), same: textsOf(geocode['SAME']), affected: textsOf(p['affectedZones']) },
    note,
  );
  return {
    alert: {
      ...row,
      event_code: textsOf(eventCode['NationalWeatherService'])[0] ?? null,
      response: textOf(p['response']),
      parameters: unreadable.length === 0 ? parameters : { ...parameters, UnreadableUGC: unreadable },
      geometry: geometryOf(feature['geometry'], note),
    },
    areas,
    references: [
      ...referencesOf(p['references']),
      ...textsOf(parameters['expiredReferences']).flatMap(referencesIn),
    ].flatMap(([identifier, sender, sent]) => {
      const ref_id = textOf(identifier);
      if (ref_id === null) {
        note('a reference has no identifier; left out');
        return [];
      }
      const ref_sent_at = optionalInstantOrNull(sent, note);
      return [{ alert_id, ref_id, ref_sender: textOf(sender), ref_sent_at }];
    }),
    listed: row['message_type'] !== 'Cancel' && !isOver(vtec),
  };
}

function optionalInstantOrNull(sent: unknown, note: Note): string | null {
  try {
    return optionalInstant(sent, 'the sent of a reference', note);
  } catch {
    note('the sent of a reference is not a time; read as unknown');
    return null;
  }
}

/** Returns the outline of an alert, or null if its location is given by its zones. */
function geometryOf(geometry: unknown, note: Note): Json | null {
  if (!isRecord(geometry)) return null;
  const outline = outlineOf(geometry, note);
  if (outline === null) note('geometry is not a polygon with closed rings; the alert is placed by its zones');
  return outline;
}

/**
 * Creates a placeholder for an alert that cannot be read. It has no end and no area, so readers assume that
 * it is in force but do not know where.
 */
function unreadableAlert(feature: Json, fetchedAt: string): Alert {
  const p = isRecord(feature['properties']) ? feature['properties'] : {};
  const alert_id = `unreadable:${textOf(feature['id']) ?? textOf(p['headline']) ?? 'alert'}`.slice(0, 200);
  const row = alertRow(
    { ...p, alert_id, sent: fetchedAt, expires: null, ends: null, vtec: [] },
    () => undefined,
  );
  return {
    alert: {
      ...row,
      expires_at: endless,
      ends_at: null,
      event_code: null,
      response: null,
      parameters: {},
      geometry: null,
    },
    areas: [],
    references: [],
    listed: true,
  };
}
