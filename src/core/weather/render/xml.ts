import XMLBuilder from 'fast-xml-builder';
import type { AnswerMeta } from './meta.ts';

/**
 * An element as the writer takes it: `@` before attributes, `#text` for text, an array for elements of one
 * name.
 */
type Node = string | { [name: string]: Node | Node[] };

// What no XML 1.0 document may hold, not even escaped: control characters, lone surrogates and two
// noncharacters.
const forbidden = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;
const writer = new XMLBuilder({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  textNodeName: '#text',
  suppressEmptyNode: true,
  suppressBooleanAttributes: false,
});
const head = { '?xml': { '@version': '1.0', '@encoding': 'UTF-8' } };
const schemaInstance = 'http://www.w3.org/2001/XMLSchema-instance';

/** What one item of each list is called, by the name of the list. */
type ItemNames = Readonly<Record<string, string>>;
const metaItemNames: ItemNames = { rejected: 'fields' };

/**
 * The same data as XML: `<response><data>…`, elements named as in JSON. Null is `xsi:nil`, a list is a
 * wrapper with one child for each item, and a GeoJSON geometry is its JSON text. Characters that XML 1.0 does
 * not allow are dropped.
 */
export function renderXml(data: object | null, itemNames: ItemNames, meta: AnswerMeta | null = null): string {
  const about = meta === null ? {} : { meta: nodeOf('meta', meta, metaItemNames) };
  const response = { '@xmlns:xsi': schemaInstance, data: nodeOf('data', data, itemNames), ...about };
  return `${writer.build({ ...head, response })}\n`;
}

function nodeOf(name: string, value: unknown, itemNames: ItemNames): Node {
  if (value === null || value === undefined) return { '@xsi:nil': 'true' };
  if (typeof value === 'string') return textOf(value);
  if (typeof value !== 'object') return JSON.stringify(value);
  if (Array.isArray(value)) {
    const child = itemNames[name];
    if (child === undefined) throw new TypeError(`the items of the list "${name}" have no name`);
    return { [child]: value.map((item) => nodeOf(child, item, itemNames)) };
  }
  if (name === 'geometry')
    return { '@mediaType': 'application/geo+json', '#text': textOf(JSON.stringify(value)) };
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, nodeOf(key, inner, itemNames)]),
  );
}

/** Line ends as every XML parser would normalise them. */
function textOf(text: string): string {
  return text.replaceAll(forbidden, '').replaceAll(/\r\n?/g, '\n');
}
