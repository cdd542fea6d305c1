import { XMLParser } from 'fast-xml-parser';
import { BrokenDocument } from './faults.ts';

/**
 * The elements of a document as maps, by their names without a prefix, with text everywhere; `lists` names
 * those that may be there several times. A DOCTYPE is refused: nothing that is read here has one, and
 * entities of its own can be made to grow without end.
 */
export function parseXml(text: string, lists: readonly string[]): unknown {
  if (/<!DOCTYPE/i.test(text)) throw new BrokenDocument('it has a DOCTYPE');
  const parser = new XMLParser({
    parseTagValue: false,
    removeNSPrefix: true,
    // Numeric character references, which the parser takes for a matter of HTML.
    htmlEntities: true,
    isArray: (name) => lists.includes(name),
  });
  return parser.parse(text) as unknown;
}
