import Negotiator from 'negotiator';
import { WaybillError } from '../../../core/lib/errors.ts';
import type { ProblemForm } from '../request/request-context.ts';

export type Format = 'json' | 'geojson' | 'xml' | 'text' | 'csv';

export interface Representation {
  format: Format;
  mediaType: string;
}

// Most preferred first. Each type includes its charset, in case an `Accept` has one too.
const known: readonly (Representation & { matches?: string })[] = [
  { format: 'json', mediaType: 'application/json; charset=utf-8' },
  { format: 'xml', mediaType: 'application/xml; charset=utf-8' },
  { format: 'xml', mediaType: 'text/xml; charset=utf-8' },
  { format: 'text', mediaType: 'text/plain; charset=utf-8' },
  // RFC 7946 does not define a charset parameter for this type.
  {
    format: 'geojson',
    mediaType: 'application/geo+json',
    matches: 'application/geo+json; charset=utf-8',
  },
  { format: 'csv', mediaType: 'text/csv; charset=utf-8; header=present' },
];
const json: Representation = { format: 'json', mediaType: 'application/json; charset=utf-8' };
/** Formats that every read route supports. */
export const commonFormats: readonly Format[] = ['json', 'xml', 'text'];

/**
 * Chooses the format of the response from the `format` parameter or, without one, from `Accept` as defined in
 * RFC 9110. Browsers get JSON, because their `Accept` ranks XML above everything else we offer. An `Accept`
 * with `text/html` but without JSON and plain text counts as a browser's. Throws `unsupported_format`.
 */
export function negotiate(
  format: string | null,
  accept: string | undefined,
  formats: readonly Format[] = commonFormats,
): Representation {
  const offered = known.filter((each) => formats.includes(each.format));
  if (format !== null) {
    const named = offered.find((each) => each.format === format);
    if (named === undefined) throw notOffered(`there is no format ${JSON.stringify(format)} here`, offered);
    return named;
  }
  if (accept === undefined || accept.trim() === '' || isBrowser(accept)) return json;
  const types = offered.map(({ mediaType, matches = mediaType }) => matches);
  const [best = ''] = new Negotiator({ headers: { accept } }).mediaTypes(types);
  const chosen = offered[types.indexOf(best)];
  if (chosen === undefined) throw notOffered('no media type of the Accept header is available', offered);
  return chosen;
}

const problemForms: readonly { form: ProblemForm; mediaType: string }[] = [
  { form: 'json', mediaType: 'application/problem+json' },
  { form: 'json', mediaType: 'application/json; charset=utf-8' },
  { form: 'json', mediaType: 'application/geo+json; charset=utf-8' },
  { form: 'xml', mediaType: 'application/problem+xml' },
  { form: 'xml', mediaType: 'application/xml; charset=utf-8' },
  { form: 'xml', mediaType: 'text/xml; charset=utf-8' },
  { form: 'text', mediaType: 'text/plain; charset=utf-8' },
];

/**
 * Reports whether `Accept` ranks HTML above JSON, as browsers do. Returns false if the header is missing or
 * accepts anything.
 */
export function prefersPage(accept: string | undefined): boolean {
  if (accept === undefined || !/text\/html/i.test(accept)) return false;
  const json = ['application/problem+json', 'application/json; charset=utf-8'];
  return new Negotiator({ headers: { accept } }).mediaType([...json, pageType]) === pageType;
}

const pageType = 'text/html; charset=utf-8';

/**
 * Chooses the format of an error response. Uses the requested format if errors can be written in it,
 * otherwise JSON. There is no standard for errors in GeoJSON or CSV, so those clients get JSON, as they do
 * from api.weather.gov and PostgREST. Browsers that do not ask for a format get a page.
 */
export function negotiateProblem(format: string | null, accept: string | undefined): ProblemForm {
  if (format === 'xml' || format === 'text') return format;
  const isKnown = format !== null && ['json', 'geojson', 'csv'].includes(format);
  if (isKnown || accept === undefined) return 'json';
  if (isBrowser(accept)) return 'html';
  const types = problemForms.map(({ mediaType }) => mediaType);
  const [best] = new Negotiator({ headers: { accept } }).mediaTypes(types);
  return problemForms.find(({ mediaType }) => mediaType === best)?.form ?? 'json';
}

/**
 * Returns the members of `available` that `Accept-Encoding` allows, best first. If the client ranks some of
 * them equally, they stay in the order of `available`.
 */
export function acceptedCodings<C extends string>(acceptEncoding: string, available: readonly C[]): C[] {
  const headers = { 'accept-encoding': acceptEncoding };
  const negotiator = new Negotiator({ headers }) as unknown as PreferringNegotiator;
  return negotiator.encodings(available, { preferred: available }) as C[];
}

/** This option is missing from the package's types. */
interface PreferringNegotiator {
  encodings(available: readonly string[], options: { preferred: readonly string[] }): string[];
}

function isBrowser(accept: string): boolean {
  const names = (type: string): boolean => new RegExp(`(^|,)\\s*${type}\\s*(;|,|$)`, 'i').test(accept);
  // Browsers never ask for these.
  const meant = ['application/json', 'application/geo\\+json', 'text/csv', 'text/plain'];
  return names('text/html') && !meant.some(names);
}

function notOffered(what: string, offered: readonly Representation[]): WaybillError {
  const types = offered.map(({ mediaType }) => mediaType.split(';', 1)[0]).join(', ');
  const formats = [...new Set(offered.map(({ format }) => `format=${format}`))];
  return new WaybillError('unsupported_format', what, {
    hint: `available are ${types}; or use ${formats.slice(0, -1).join(', ')} or ${formats.at(-1) ?? ''}`,
  });
}
