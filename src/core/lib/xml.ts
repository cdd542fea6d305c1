import XMLBuilder from 'fast-xml-builder';

/**
 * An element of an XML document. Names of attributes start with `@`, text is in `#text`, and an array stands
 * for several elements with the same name.
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

/** Returns an XML document with this root element. All text in it must come from `xmlText`. */
export function writeXml(root: Record<string, XmlNode>): string {
  return `${writer.build({ ...head, ...root })}\n`;
}

// Characters that are not allowed in XML 1.0, even if they are escaped: control characters, lone surrogates
// and two noncharacters.
const forbidden = /[^\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]/gu;

/** Removes characters that XML 1.0 does not allow. Line endings become `\n`, as in any XML parser. */
export function xmlText(text: string): string {
  return text.replaceAll(forbidden, '').replaceAll(/\r\n?/g, '\n');
}
