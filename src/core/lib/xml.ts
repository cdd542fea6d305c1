import XMLBuilder from 'fast-xml-builder';

/**
 * An element for the writer. Attributes are prefixed with `@`, `#text` holds text, and an array holds several
 * elements with the same name.
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

/** Returns a complete document with this root element. Its texts must come from `xmlText`. */
export function writeXml(root: Record<string, XmlNode>): string {
  return `${writer.build({ ...head, ...root })}\n`;
}

// Characters that no XML 1.0 document may contain, even escaped: control characters, lone surrogates and two
// noncharacters.
const forbidden = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

/** Removes characters that XML 1.0 forbids, and normalizes line endings as every parser does. */
export function xmlText(text: string): string {
  return text.replaceAll(forbidden, '').replaceAll(/\r\n?/g, '\n');
}
