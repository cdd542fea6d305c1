import XMLBuilder from 'fast-xml-builder';

/**
 * An element as the writer takes it: `@` before attributes, `#text` for text, an array for elements of one
 * name.
 */
export type XmlNode = string | { [name: string]: XmlNode | XmlNode[] };

const writer = new XMLBuilder({
  ignoreAttributes: false,
  attributeNamePrefix: '@',
  textNodeName: '#text',
  suppressEmptyNode: true,
  suppressBooleanAttributes: false,
});
const head = { '?xml': { '@version': '1.0', '@encoding': 'UTF-8' } };

/** A whole document with this root element. Its texts must come from `xmlText`. */
export function writeXml(root: Record<string, XmlNode>): string {
  return `${writer.build({ ...head, ...root })}\n`;
}
