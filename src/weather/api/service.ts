import { type Format, negotiate, type Representation } from '../../api/http/answer/negotiate.ts';
import { reasonOf } from '../../api/http/answer/problem.ts';
import {
  codingFor,
  newAnswerEncoder,
  type TaggedAnswer,
  taggedAnswer,
} from '../../api/http/answer/send-with-etag.ts';
import type { WeatherMetrics } from '../../api/metrics/weather-metrics.ts';
import type { WeatherConfig } from '../../core/config/weather/settings.ts';
import type { Clock } from '../../core/lib/clock.ts';
import type { Log } from '../../core/lib/log.ts';
import type { Rejection } from '../database/cleaner.ts';
import { type FamilyName, weatherFamilies } from '../families.ts';
import type { Reading, ResolvedPlace, WeatherFamily } from '../family.ts';
import type { ZoneOutlines } from '../places/outlines.ts';
import { type QueryOf, readFamily, type RecordOf, type WeatherReader } from '../reader.ts';
import type { NewestObservations } from '../records/observations.ts';
import { type AnswerMeta, renderCsv, renderGeoJson, renderJson, renderXml } from '../render/formats.ts';
import type { TextRenderer } from '../render/text-renderer.ts';
import type { UnitSystem } from '../units.ts';
import type { UnknownPart } from '../values.ts';
import { ByteCache, maxKept, newAnswerCache } from './answer-cache.ts';
import { asOfMeta, type Dates, isStale, linkToNext, newDates } from './answer-headers.ts';
import type { WeatherEndpoint, WeatherRequest } from './endpoints.ts';

/** A rendered response, and the endpoint that it is from. */
export interface WeatherAnswer extends TaggedAnswer {
  endpoint: WeatherEndpoint;
  /**
   * How long this response may be used while the database is unreachable, in milliseconds. 0 to never use it.
   */
  staleIfErrorMs: number;
}

export interface WeatherService {
  /**
   * Responds to a weather request. Throws `invalid_parameter`, `unsupported_format`, `template_error`, and
   * the errors of the reader.
   */
  answer(endpoint: WeatherEndpoint, request: WeatherRequest): Promise<WeatherAnswer>;
  /** Returns the cached response to an identical request, if there is one. */
  hot(request: WeatherRequest): WeatherAnswer | undefined;
  /**
   * Returns the current record of a family, for pages that combine several of them. Throws the same errors as
   * `answer`.
   */
  record<Name extends FamilyName>(family: Name, query: QueryOf<Name>): Promise<CurrentRecord<Name>>;
  /** Returns the outlines of forecast zones, looked up by UGC code. */
  zoneOutlines: ZoneOutlines;
  /** Returns the latest observation of each of several stations. */
  newestObservations: NewestObservations;
}

interface CurrentRecord<Name extends FamilyName> {
  data: RecordOf<Name> | null;
  stale: boolean;
  /** When the data was measured, issued or fetched. null if unknown. */
  asOf: Date | null;
  resolved: ResolvedPlace | null;
  /** Parts of the record that could not be determined. Without this, they would look empty. */
  unknown: readonly UnknownPart[];
  /** Parts of the record that come from a different issuance of the product. */
  otherIssues: readonly { field: string; issuedAt: string }[];
}

interface ServiceParts {
  reader: WeatherReader;
  text: TextRenderer;
  clock: Clock;
  settings: Pick<WeatherConfig, 'cacheMs' | 'staleAfter'>;
  observer: WeatherObserver;
}

/** In seconds. Short, because data may arrive at any time. */
const maxAgeWithoutData = 15;

/**
 * Serves weather data. If several clients ask for the same thing at the same time, only one query is sent.
 * Rendered responses are cached for `cacheMs`, including their compressed versions. If the database is
 * unreachable, clients get the last good response for as long as its data is not stale.
 */
export function createWeatherService(parts: ServiceParts): WeatherService {
  const { clock, settings, observer } = parts;
  const { cacheMs } = settings;
  // There are two caches. One is keyed by the parsed query. The other is keyed by the raw request, to skip
  // parsing.
  const byMeaning = newAnswerCache<WeatherAnswer>(clock, cacheMs);
  const byRequest = new ByteCache<WeatherAnswer>(maxKept);
  const encode = newAnswerEncoder<WeatherAnswer>();
  const dates = newDates();
  return {
    async answer(endpoint, request) {
      const { format, ...query } = endpoint.query.read(request.url);
      const as = negotiate(format, request.accept, endpoint.formats);
      const key = `${endpoint.path} ${as.mediaType} ${JSON.stringify(query)}`;
      const make = (): Promise<WeatherAnswer> => answerOf({ key, endpoint, query, as, dates }, parts);
      const produced = await byMeaning.of(key, make, (error) => observer.servedStale(endpoint.family, error));
      const coding = codingFor(request.acceptEncoding, produced.answer.bytes);
      const answer = await encode(produced.answer, coding);
      if (produced.isStale) return withStaleWarning(answer);
      const exactly = requestKey(request);
      const bytes = answer.bytes + exactly.length;
      if (cacheMs > 0) byRequest.set(exactly, answer, { bytes, until: produced.until });
      return answer;
    },
    hot: (request) => (cacheMs > 0 ? byRequest.get(requestKey(request), clock.monotonic()) : undefined),
    async record(family, query) {
      const { reading, stale } = await readNow(family, query, parts);
      const { data, asOf = null, resolved = null, unknown = [], otherIssues = [] } = reading;
      // Safe, because the reader returns the type that belongs to the family.
      return { data: data as RecordOf<typeof family> | null, stale, asOf, resolved, unknown, otherIssues };
    },
    zoneOutlines: (ugcs) => parts.reader.zoneOutlines(ugcs),
    newestObservations: (stations, since) => parts.reader.newestObservations(stations, since),
  };
}

function requestKey({ url, accept = '', acceptEncoding = '' }: WeatherRequest): string {
  return `${url} ${accept}\n${acceptEncoding}`;
}

/** The warning defined in RFC 7234, section 5.5.2, for caches that could not revalidate a response. */
function withStaleWarning(answer: WeatherAnswer): WeatherAnswer {
  const headers = { ...answer.headers, Warning: '111 waybill "Revalidation Failed"' };
  return { ...answer, headers };
}

interface PreparedRequest {
  key: string;
  endpoint: WeatherEndpoint;
  query: object;
  as: Representation;
  dates: Dates;
}

interface ReadNow {
  reading: Reading<object>;
  /** In milliseconds since the epoch. null if the data never becomes stale. */
  staleAt: number | null;
  stale: boolean;
  now: Date;
}

/** Reads a record from the database and reports the result to the observer. */
async function readNow(
  family: FamilyName,
  query: object,
  { reader, clock, settings, observer }: Pick<ServiceParts, 'reader' | 'clock' | 'settings' | 'observer'>,
): Promise<ReadNow> {
  const reading = await readFamily(reader, family, query);
  const now = clock.now();
  // Some families never become stale: places, histories and single alerts.
  const ages: Partial<Record<`${FamilyName}Ms`, number>> = settings.staleAfter;
  const staleAt = staleAtOf(reading, ages[`${family}Ms`] ?? Infinity);
  const stale = isStale(staleAt, now);
  observer.answered(family, { stale, asOf: reading.asOf ?? null, rejected: reading.rejected ?? [] });
  return { reading, staleAt, stale, now };
}

async function answerOf(
  { key, endpoint, query, as: { format, mediaType }, dates }: PreparedRequest,
  parts: ServiceParts,
): Promise<WeatherAnswer> {
  const { reading, staleAt, stale, now } = await readNow(endpoint.family, query, parts);
  const { data } = reading;
  const meta = asOfMeta(reading, stale);
  const request = { endpoint: endpoint.path, parameters: query };
  const rendered = await render(format, { data, meta, endpoint, request }, parts.text);
  const maxAge = data === null ? maxAgeWithoutData : endpoint.maxAgeSeconds;
  const headers = {
    'Cache-Control': `public, max-age=${maxAge}`,
    // Suggests a file name for saving the response.
    ...(format === 'csv' ? { 'Content-Disposition': `inline; filename="${fileName(endpoint)}.csv"` } : {}),
    ...(reading.next === undefined ? {} : { Link: linkToNext(query, format, reading.next) }),
  };
  const answer = taggedAnswer(mediaType, rendered, {
    vary: 'Accept, Accept-Encoding',
    headers: stale ? { ...headers, Warning: '110 waybill "Response is Stale"' } : headers,
  });
  // Do not send a date with text responses. If a template is edited, they change without the data becoming
  // newer.
  const dated = format === 'text' || stale ? null : reading.lastModified;
  const staleIfErrorMs = stale || staleAt === null ? 0 : staleAt - now.getTime();
  return { endpoint, staleIfErrorMs, ...answer, lastModified: dates.of(key, answer.etag, dated, now) };
}

function staleAtOf({ asOf }: Reading<object>, afterMs: number): number | null {
  return asOf === undefined ? null : asOf.getTime() + afterMs;
}

function fileName({ path }: WeatherEndpoint): string {
  return path.slice(1).replaceAll('/', '-');
}

async function render(
  format: Format,
  answer: {
    data: object | null;
    meta: AnswerMeta | null;
    endpoint: WeatherEndpoint;
    request: { endpoint: string; parameters: object };
  },
  text: TextRenderer,
): Promise<string> {
  const { data, meta, endpoint, request } = answer;
  const family: WeatherFamily = weatherFamilies[endpoint.family];
  switch (format) {
    case 'json':
      return renderJson(data, meta);
    case 'xml':
      return renderXml(data, endpoint.itemNames, meta);
    case 'text':
      return text.render(endpoint.template, data, request, meta);
    case 'geojson':
      if (family.features === undefined) throw withoutFormat(format);
      return renderGeoJson(data === null ? null : family.features(data), meta);
    case 'csv':
      if (family.table === undefined) throw withoutFormat(format);
      return renderCsv(family.table, data, unitsOf(request.parameters));
  }
}

/** Never happens, because an endpoint only accepts formats that its family has. */
function withoutFormat(format: Format): TypeError {
  return new TypeError(`${format} of a family that does not have it`);
}

function unitsOf(query: object): UnitSystem {
  return 'units' in query && query.units === 'us' ? 'us' : 'si';
}

export interface WeatherPorts {
  /** null if no weather database is configured. */
  weather: WeatherService | null;
}

/** Gets the result of each read, for logging and metrics. */
interface WeatherObserver {
  answered(
    family: FamilyName,
    answer: { stale: boolean; asOf: Date | null; rejected: readonly Rejection[] },
  ): void;
  /** Called when the database did not respond and an earlier response was used instead. */
  servedStale(family: FamilyName, error: unknown): void;
}

const maxNamed = 10_000;

/**
 * Logs and counts invalid fields. Each field of a record is reported only once, even if it is read many
 * times. After 10,000 reports, the list is cleared.
 */
export function newWeatherObserver(log: Log, metrics: WeatherMetrics | null): WeatherObserver {
  const named = new Set<string>();
  return {
    answered(family, { stale, asOf, rejected }) {
      metrics?.weatherAnswered(family, { stale, asOf });
      for (const each of rejected) {
        const { field, reason, record, isLeftOut } = each;
        const name = `${family} ${field} ${reason} ${record}`;
        if (named.has(name)) continue;
        if (named.size >= maxNamed) named.clear();
        named.add(name);
        metrics?.weatherRejected(family, reason);
        const what = isLeftOut ? 'a weather record is left out' : 'a field of a weather record is left out';
        log.warn({ family, field, reason, record }, what);
      }
    },
    servedStale(family, error) {
      metrics?.weatherStoodIn(family);
      const reason = error instanceof Error ? reasonOf(error) : String(error);
      log.warn({ family, reason }, 'serving the last good response');
    },
  };
}
