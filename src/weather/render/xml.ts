import { xmlText, writeXml, type XmlNode } from '../../core/lib/xml.ts';
import type { AnswerMeta } from './meta.ts';

const schemaInstance = 'http://www.w3.org/2001/XMLSchema-instance';

/** What one item of each list is called, by the name of the list. */
type ItemNames = Readonly<Record<string, string>>;
const metaItemNames: ItemNames = { rejected: 'fields', unknown: 'part', otherIssues: 'part' };

/**
 * The same data as XML: `<response><data>…`, elements named as in JSON. Null is `xsi:nil`, a list is a
 * wrapper with one child for each item, and a GeoJSON geometry is its JSON text. Characters that XML 1.0 does
 * not allow are dropped.
 */
export function renderXml(data: object | null, itemNames: ItemNames, meta: AnswerMeta | null = null): string {
  const about: Record<string, XmlNode> = meta === null ? {} : { meta: nodeOf('meta', meta, metaItemNames) };
  const response = { '@xmlns:xsi': schemaInstance, data: nodeOf('data', data, itemNames), ...about };
  return writeXml({ response });
}

function nodeOf(name: string, value: unknown, itemNames: ItemNames): XmlNode {
  if (value === null || value === undefined) return { '@xsi:nil': 'true' };
  if (typeof value === 'string') return xmlText(value);
  if (typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) {
    const child = itemNames[name];
    if (child === undefined) throw new TypeError(`the items of the list "${name}" have no name`);
    return { [child]: value.map((item) => nodeOf(child, item, itemNames)) };
  }
  if (name === 'geometry')
    return { '@mediaType': 'application/geo+json', '#text': xmlText(JSON.stringify(value)) };
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, nodeOf(key, inner, itemNames)]),
  );
}
