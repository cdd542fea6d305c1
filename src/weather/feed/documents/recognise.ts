import { isRecord } from '../../../core/lib/json-document.ts';
import { alertsOf } from './alerts.ts';
import { capOf } from './cap.ts';
import { forecastOf } from './forecasts.ts';
import { observationOf } from './observations.ts';
import { outlookOf } from './outlooks.ts';
import { isPlaceTable, placeTableOf } from './place-tables.ts';
import { isOffice, isStation, isZone, officeOf, placesOf, stationOf, zoneOf, zoneTable } from './places.ts';
import {
  BrokenDocument,
  itemsOf,
  type Json,
  type Loadable,
  type Note,
  NothingToLoad,
  readEach,
} from './rows.ts';
import { graphicastsOf, storiesOf, textProductsOf } from './text-products.ts';

export interface Recognised {
  records: Loadable[];
  /** Invalid list items that were skipped. Each entry says where the item was and why it was skipped. */
  leftOut: string[];
}

/**
 * Reads a document from the NWS or SPC. Its kind is detected from the content; only a few kinds also depend
 * on the file name. `receivedAt` is when the document was requested. If it is null, the times in the document
 * are used instead, so that loading the same file again changes nothing. Throws `NothingToLoad` if the
 * document has no data that we use. If it is invalid, throws `BrokenDocument`, `SyntaxError` or another
 * error.
 */
export function recognise(text: string, fileName: string, receivedAt: Date | null = null): Recognised {
  const leftOut: string[] = [];
  const reading: DocumentContext = {
    fileName,
    leftOut,
    note: (message) => leftOut.push(message),
    isPoll: receivedAt !== null,
  };
  const records = recordsOf(text, reading);
  return {
    records: receivedAt === null ? records : records.map((one) => received(one, receivedAt)),
    leftOut: reading.leftOut,
  };
}

/** Information about a document apart from its text, and a list to report problems to. */
interface DocumentContext {
  fileName: string;
  leftOut: string[];
  note: Note;
  /** True if the document was just requested. False if it is a file that may be of any age. */
  isPoll: boolean;
}

function recordsOf(raw: string, reading: DocumentContext): Loadable[] {
  const text = storable(raw);
  const start = text.trimStart();
  if (start.startsWith('{') || start.startsWith('[')) return fromJson(parsed(text), reading);
  if (capStart.test(start)) return [capOf(text, reading.note)];
  if (start.includes('<graphicasts>')) return [graphicastsOf(text, reading.leftOut)];
  if (isPlaceTable(start)) return [placeTableOf(text, reading.leftOut)];
  if (start === '') throw new BrokenDocument('it is empty');
  // Proxies, and servers during maintenance, respond with an HTML page instead of data.
  if (/^(<!--[^]*?-->\s*)*<(!doctype\s+)?html\b/i.test(start))
    throw new BrokenDocument('it is a web page (HTML), not data');
  if (reading.isPoll) throw new BrokenDocument('it is not JSON, the format of the service');
  return textProductsOf(null, text);
}

/**
 * Matches if the first element is `alert`, ignoring declarations and comments. A DOCTYPE is matched too,
 * because `parseXml` rejects it with a proper message.
 */
const capStart =
  /^(?:<\?[^>]*>\s*|<!--[^]*?-->\s*|<!DOCTYPE\s+(?:[\w.-]+:)?alert\b[^[>]*(?:\[[^\]]*\]\s*)?>\s*)*<(?:[\w.-]+:)?alert[\s>]/i;

/**
 * Removes the byte order mark, and NUL characters, which PostgreSQL cannot store. The rest of the text can be
 * used.
 */
function storable(text: string): string {
  return text.replace(/^\uFEFF/, '').replaceAll('\0', '');
}

function parsed(text: string): unknown {
  if (!/\\u(?:0000|d[89a-f])/i.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_name, value: unknown) =>
    typeof value === 'string' ? storable(value).toWellFormed() : value,
  );
}

function fromJson(document: unknown, reading: DocumentContext): Loadable[] {
  const { fileName } = reading;
  if (!isRecord(document)) throw new NothingToLoad('it is not a document of NWS or SPC');
  if ('productText' in document) return textProductsOf(document, '');
  if (Array.isArray(document['stories'])) return [storiesOf(document, fileName, reading.leftOut)];
  if (Array.isArray(document['features']))
    return fromFeatures(document, itemsOf(document['features']), reading);
  if (isOffice(document)) return [{ family: 'places', table: 'offices', rows: [officeOf(document)] }];
  const properties = isRecord(document['properties']) ? document['properties'] : {};
  if ('periods' in properties) return [forecastOf(document, fileName, reading.leftOut)];
  if ('timestamp' in properties) return [observationOf(document, reading.note)];
  if (isZone(properties))
    return [{ family: 'places', table: zoneTable(properties), rows: [zoneOf(document, reading.note)] }];
  if (isStation(properties))
    return [{ family: 'places', table: 'stations', rows: [stationOf(document, reading.note)] }];
  throw new NothingToLoad(
    'error' in document || 'status' in document || isRecord(document['stories'])
      ? 'it is an error of the source'
      : 'it is not known',
  );
}

function fromFeatures(document: Json, features: Json[], reading: DocumentContext): Loadable[] {
  if (String(document['title']).startsWith('Current watches')) return [alertsOf(document, reading)];
  if (features.length === 0) throw new NothingToLoad('it is an empty list');
  const all = features.flatMap(({ properties, attributes }) =>
    isRecord(properties) ? [properties] : isRecord(attributes) ? [attributes] : [],
  );
  if (all.length === 0) throw new NothingToLoad('its features have no properties');
  // Check for any item that has the field, since it may be missing from an invalid one.
  if (all.some((each) => 'timestamp' in each))
    return readEach(features, 'features', reading.leftOut, observationOf);
  if (all.some((each) => 'event' in each)) return [alertsOf(document, reading)];
  if (all.some(isZone)) return placesOf(features, reading.leftOut, { tableOf: zoneTable, read: zoneOf });
  if (all.some(isStation))
    return placesOf(features, reading.leftOut, { tableOf: () => 'stations', read: stationOf });
  return [outlookOf(document, reading.fileName, reading.note)];
}

function received(record: Loadable, at: Date): Loadable {
  const received_at = at.toISOString();
  switch (record.family) {
    case 'observation':
      return { ...record, observation: { ...record.observation, received_at } };
    case 'alerts':
    case 'stories':
      return { ...record, fetchedAt: received_at };
    case 'forecast':
    case 'outlook':
    case 'outlook_discussion':
      return { ...record, run: { ...record.run, received_at } } as Loadable;
    case 'forecast_discussion':
      return { ...record, discussion: { ...record.discussion, received_at } };
    case 'places':
      return record;
  }
}
