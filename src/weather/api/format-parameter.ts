import type { Parameter } from '../../core/lib/parameters.ts';
import type { Format } from '../../api/http/answer/negotiate.ts';

/**
 * The format of an answer that there is in these. Any text but an empty one: an unknown format is refused by
 * the negotiation, with what is offered.
 */
export function formatParameter(formats: readonly Format[]): Parameter<string | null> {
  return {
    description: 'The form of the answer; it beats `Accept`. Without both: json.',
    schema: { type: 'string', enum: formats },
    absent: null,
    expected: `one of ${formats.join(', ')}`,
    parse: (text) => (text === '' ? undefined : text),
  };
}
