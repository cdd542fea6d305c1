import type { IncomingMessage } from 'node:http';
import { queryParameters } from '../../api/http/query-parameters.ts';
import { type Parameter, wholeNumber } from '../../core/lib/parameters.ts';
import { searchParameter, stateParameter, unitsParameter } from '../places/place-parameters.ts';
import type { UnitSystem } from '../units.ts';

/** The query parameters of the map page. */
export interface MapQuery {
  /** A two-letter code; null for the whole country. */
  state: string | null;
  /** Part of a station's name to search for; null if there is no search. */
  q: string | null;
  /** The outlook day; null to show alerts. */
  day: number | null;
  units: UnitSystem;
}

/**
 * Makes a parameter accept an empty value, which means the same as leaving it out. Browsers submit every form
 * field, even the empty ones.
 */
function orEmpty<T>(parameter: Parameter<T>): Parameter<T> {
  const { absent, parse } = parameter;
  return { ...parameter, parse: (text) => (text.trim() === '' ? absent : parse(text)) };
}

const day = wholeNumber(1, 8, 1, { description: 'Day of the outlook that is shown instead of alerts.' });
const own = {
  state: orEmpty(stateParameter),
  q: orEmpty(searchParameter),
  day: { ...day, absent: null } as Parameter<number | null>,
  units: { ...unitsParameter, absent: null } as Parameter<UnitSystem | null>,
};
const map = queryParameters(own, { code: 'invalid_parameter' });
const station = queryParameters({ units: own.units }, { code: 'invalid_parameter' });

/** The units to show. They are taken from the URL, or else from the cookie. The default is `us`. */
export interface ChosenUnits {
  units: UnitSystem;
  /** True if the units are in the URL. In that case, we remember them in the cookie. */
  isChosen: boolean;
}

/** Parses the query of the map page. Throws `invalid_parameter`. */
export function mapQuery(url: string, remembered: UnitSystem | null): MapQuery & ChosenUnits {
  const { units, ...query } = map.read(url);
  return { ...query, ...chosen(units, remembered) };
}

/** Parses the query of a station's page. Throws `invalid_parameter`. */
export function stationQuery(url: string, remembered: UnitSystem | null): ChosenUnits {
  return chosen(station.read(url).units, remembered);
}

function chosen(units: UnitSystem | null, remembered: UnitSystem | null): ChosenUnits {
  return { units: units ?? remembered ?? 'us', isChosen: units !== null };
}

/**
 * Returns the query string for a link to other units. Unlike in other links, the units are always included,
 * so that they are remembered.
 */
export function unitsText(query: Partial<MapQuery> & { units: UnitSystem }): string {
  const parameters = new URLSearchParams(queryText(query));
  parameters.set('units', query.units);
  return `?${parameters.toString()}`;
}

/**
 * Returns the query string for a link to a map, such as `?state=NY`. Parameters with default values are left
 * out, so it can be empty.
 */
export function queryText(query: Partial<MapQuery>): string {
  const { state = null, q = null, day = null, units = 'us' } = query;
  const parameters = new URLSearchParams();
  if (state !== null) parameters.set('state', state);
  if (q !== null) parameters.set('q', q);
  if (day !== null) parameters.set('day', String(day));
  if (units !== 'us') parameters.set('units', units);
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

/** Returns the path of a station's page. `here` is the path of the map. */
export function stationHref(id: string, { units }: Pick<MapQuery, 'units'>, here: string): string {
  return `${here}stations/${encodeURIComponent(id)}${queryText({ units })}`;
}

/**
 * The units that were last chosen in this browser. They are stored in a cookie for the weather pages,
 * `waybill_units`.
 */

const yearSeconds = 365 * 24 * 60 * 60;

export function rememberedUnits({ headers }: Pick<IncomingMessage, 'headers'>): UnitSystem | null {
  const [, value] = /(?:^|;\s*)waybill_units=(si|us)\s*(?:;|$)/.exec(headers.cookie ?? '') ?? [];
  return value === 'si' || value === 'us' ? value : null;
}

/**
 * Returns the headers of a page whose URL names the units. It sets a cookie, so no shared cache may store it.
 * Returns no headers if the URL does not name them.
 */
export function unitsHeaders(
  { units, isChosen }: { units: UnitSystem; isChosen: boolean },
  basePath: string,
): Record<string, string> {
  if (!isChosen) return {};
  const attributes = `Max-Age=${yearSeconds}; Path=${basePath}weather/; HttpOnly; SameSite=Lax`;
  return { 'Set-Cookie': `waybill_units=${units}; ${attributes}`, 'Cache-Control': 'private, no-cache' };
}
