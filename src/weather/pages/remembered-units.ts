import type { IncomingMessage } from 'node:http';
import type { UnitSystem } from '../units.ts';

/** The units that a browser chose last, in the cookie `waybill_units` of the weather pages. */

const yearSeconds = 365 * 24 * 60 * 60;

export function rememberedUnits({ headers }: Pick<IncomingMessage, 'headers'>): UnitSystem | null {
  const [, value] = /(?:^|;\s*)waybill_units=(si|us)\s*(?:;|$)/.exec(headers.cookie ?? '') ?? [];
  return value === 'si' || value === 'us' ? value : null;
}

/** The header of a page on which the units were chosen. Without a choice there is none. */
export function unitsHeaders(
  { units, isChosen }: { units: UnitSystem; isChosen: boolean },
  basePath: string,
): Record<string, string> {
  if (!isChosen) return {};
  const attributes = `Max-Age=${yearSeconds}; Path=${basePath}weather/; HttpOnly; SameSite=Lax`;
  return { 'Set-Cookie': `waybill_units=${units}; ${attributes}` };
}
