import type { Parameter } from '../../core/parameters.ts';

/** Any text but an empty one: an unknown format is refused by the negotiation, with what is offered. */
export const formatParameter: Parameter<string | null> = {
  description: 'The form of the answer; it beats `Accept`. Without both: json.',
  schema: { type: 'string', enum: ['json', 'xml', 'text'] },
  absent: null,
  expected: 'one of json, xml, text',
  parse: (text) => (text === '' ? undefined : text),
};
