import { alertsOf, capOf } from './alerts.ts';
import { forecastOf } from './forecasts.ts';
import { observationOf } from './observations.ts';
import { outlookOf } from './outlooks.ts';
import { isMap, mapsOf, NothingToLoad, type Json, type Loadable } from './rows.ts';
import { graphicastsOf, storiesOf } from './stories.ts';
import { textProductsOf } from './text-products.ts';

/**
 * What a file of NWS or SPC holds, told by its content. Throws `NothingToLoad` with the reason where it holds
 * nothing for the reader.
 */
export function recognise(text: string, fileName: string): Loadable[] {
  const start = text.trimStart();
  if (start.startsWith('{') || start.startsWith('[')) return fromJson(JSON.parse(text), fileName);
  if (/^(<\?xml[^>]*>\s*)?<alert\s/.test(start)) return [capOf(text)];
  if (start.includes('<graphicasts>')) return [graphicastsOf(text)];
  return textProductsOf(null, text);
}

function fromJson(document: unknown, fileName: string): Loadable[] {
  if (!isMap(document)) throw new NothingToLoad('it is no document of NWS or SPC');
  if ('productText' in document) return textProductsOf(document, '');
  if (Array.isArray(document['stories'])) return [storiesOf(document, fileName)];
  if (Array.isArray(document['features']))
    return fromFeatures(document, mapsOf(document['features']), fileName);
  const properties = isMap(document['properties']) ? document['properties'] : {};
  if ('periods' in properties) return [forecastOf(document, fileName)];
  if ('timestamp' in properties) return [observationOf(document)];
  throw new NothingToLoad(
    'error' in document || 'status' in document ? 'it is an error of the source' : 'it is not known',
  );
}

function fromFeatures(document: Json, features: Json[], fileName: string): Loadable[] {
  const [first] = features;
  if (first === undefined) {
    if (String(document['title']).startsWith('Current watches')) return [alertsOf(document)];
    throw new NothingToLoad('it is an empty list');
  }
  const properties = isMap(first['properties']) ? first['properties'] : first['attributes'];
  if (!isMap(properties)) throw new NothingToLoad('its features have no properties');
  if ('timestamp' in properties) return features.map(observationOf);
  if ('event' in properties) return [alertsOf(document)];
  return [outlookOf(document, fileName)];
}
