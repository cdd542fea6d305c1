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
import type { TextRenderer } from '../render/text.ts';
import type { UnitSystem } from '../units.ts';
import type { UnknownPart } from '../values.ts';
import { ByteCache, maxKept, newAnswerCache } from './answer-cache.ts';
import { asOfMeta, type Dates, isStale, linkToNext, newDates } from './answer-headers.ts';
import type { WeatherEndpoint, WeatherRequest } from './endpoints.ts';

/** A rendered answer that is ready to be sent, along with its endpoint. */
export interface WeatherAnswer extends TaggedAnswer {
  endpoint: WeatherEndpoint;
  /** How long the answer may be served in place of a failed read, in milliseconds. 0 disables this. */
  staleIfErrorMs: number;
}

export interface WeatherService {
  /** Throws `invalid_parameter`, `unsupported_format`, `template_error` and the reader's errors. */
  answer(endpoint: WeatherEndpoint, request: WeatherRequest): Promise<WeatherAnswer>;
  /** Returns the answer to exactly this request, if it is still cached. */
  hot(request: WeatherRequest): WeatherAnswer | undefined;
  /**
   * Returns a record and its freshness, for pages that combine several records. Throws the same errors as
   * `answer`.
   */
  record<Name extends FamilyName>(family: Name, query: QueryOf<Name>): Promise<CurrentRecord<Name>>;
  /** The outlines of zones, by their UGC codes. */
  zoneOutlines: ZoneOutlines;
  /** The newest observations of many stations. */
  newestObservations: NewestObservations;
}

/** A family's current record. */
interface CurrentRecord<Name extends FamilyName> {
  data: RecordOf<Name> | null;
  stale: boolean;
  /** When it was measured, issued or fetched. null if unknown. */
  asOf: Date | null;
  resolved: ResolvedPlace | null;
  /** Parts that are unknown, as opposed to empty. */
  unknown: readonly UnknownPart[];
  /** Parts that come from a different issue than the record. */
  otherIssues: readonly { field: string; issuedAt: string }[];
}

interface ServiceParts {
  reader: WeatherReader;
  text: TextRenderer;
  clock: Clock;
  settings: Pick<WeatherConfig, 'cacheMs' | 'staleAfter'>;
  observer: WeatherObserver;
}

/** In seconds. */
const maxAgeWithoutData = 15;

/**
 * Answers weather reads. Identical concurrent reads share one query. Rendered answers are cached for
 * `cacheMs`, in each requested coding. If the database is unreachable, the last good answer is sent while its
 * data is not stale.
 */
export function createWeatherService(parts: ServiceParts): WeatherService {
  const { clock, settings, observer } = parts;
  const { cacheMs } = settings;
  // There are two caches: one by parsed query, and one by the request as written, which needs no parsing.
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
      // The reader returns the record type of the requested family.
      return { data: data as RecordOf<typeof family> | null, stale, asOf, resolved, unknown, otherIssues };
    },
    zoneOutlines: (ugcs) => parts.reader.zoneOutlines(ugcs),
    newestObservations: (stations, since) => parts.reader.newestObservations(stations, since),
  };
}

function requestKey({ url, accept = '', acceptEncoding = '' }: WeatherRequest): string {
  return `${url} ${accept}\n${acceptEncoding}`;
}

/** RFC 7234, section 5.5.2: the warning of a cache that could not revalidate. */
function withStaleWarning(answer: WeatherAnswer): WeatherAnswer {
  const headers = { ...answer.headers, Warning: '111 waybill "Revalidation Failed"' };
  return { ...answer, headers };
}

interface Asked {
  key: string;
  endpoint: WeatherEndpoint;
  query: object;
  as: Representation;
  dates: Dates;
}

interface ReadNow {
  reading: Reading<object>;
  /** Milliseconds since the epoch, or null if it never becomes stale. */
  staleAt: number | null;
  stale: boolean;
  now: Date;
}

/** Reads a family and reports the result to the observer. */
async function readNow(
  family: FamilyName,
  query: object,
  { reader, clock, settings, observer }: Pick<ServiceParts, 'reader' | 'clock' | 'settings' | 'observer'>,
): Promise<ReadNow> {
  const reading = await readFamily(reader, family, query);
  const now = clock.now();
  // Places, histories and single alerts are never stale.
  const ages: Partial<Record<`${FamilyName}Ms`, number>> = settings.staleAfter;
  const staleAt = staleAtOf(reading, ages[`${family}Ms`] ?? Infinity);
  const stale = isStale(staleAt, now);
  observer.answered(family, { stale, asOf: reading.asOf ?? null, rejected: reading.rejected ?? [] });
  return { reading, staleAt, stale, now };
}

async function answerOf(
  { key, endpoint, query, as: { format, mediaType }, dates }: Asked,
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
    // The file name that browsers suggest when saving the answer.
    ...(format === 'csv' ? { 'Content-Disposition': `inline; filename="${fileName(endpoint)}.csv"` } : {}),
    ...(reading.next === undefined ? {} : { Link: linkToNext(query, format, reading.next) }),
  };
  const answer = taggedAnswer(mediaType, rendered, {
    vary: 'Accept, Accept-Encoding',
    headers: stale ? { ...headers, Warning: '110 waybill "Response is Stale"' } : headers,
  });
  // A template can change without a newer date of the data.
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

/** Cannot happen, because an endpoint offers only formats of its family. */
function withoutFormat(format: Format): TypeError {
  return new TypeError(`${format} of a family that does not have it`);
}

function unitsOf(query: object): UnitSystem {
  return 'units' in query && query.units === 'us' ? 'us' : 'si';
}

/** Dependencies of the weather routes. */
export interface WeatherPorts {
  /** null if no database is configured. */
  weather: WeatherService | null;
}

/** Receives the results of reads, for the log and the metrics. */
interface WeatherObserver {
  answered(
    family: FamilyName,
    answer: { stale: boolean; asOf: Date | null; rejected: readonly Rejection[] },
  ): void;
  /** Called when the last good answer was sent because the database did not respond. */
  servedStale(family: FamilyName, error: unknown): void;
}

const maxNamed = 10_000;

/**
 * Counts and logs each bad field of each record once, no matter how often it is read. Forgets all of them
 * once there are 10,000.
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
      log.warn({ family, reason }, 'the last good answer stands in');
    },
  };
}
