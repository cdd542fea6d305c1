import { type Instant, parseInstant } from '../../src/core/lib/instant.ts';

/** The instant that the text represents. Throws if it is invalid. */
export function instant(text: string): Instant {
  const verdict = parseInstant(text);
  if (!verdict.ok) throw new Error(`${text} ${verdict.reason}`);
  return verdict.value;
}
