import type { Clock } from '../../core/clock.ts';
import { readFamily, type WeatherReader } from '../../core/weather/reader.ts';
import { renderJson } from '../../core/weather/render/json.ts';
import type { TextRenderer } from '../../core/weather/render/text.ts';
import { renderXml } from '../../core/weather/render/xml.ts';
import { ByteCache } from './byte-cache.ts';
import { negotiate, type Representation } from '../http/negotiate.ts';
import { taggedAnswer, type TaggedAnswer } from '../http/send-with-etag.ts';
import type { WeatherEndpoint } from './endpoints.ts';

/** A rendered answer, ready to be sent, and what it answers. */
export interface WeatherAnswer extends TaggedAnswer {
  endpoint: WeatherEndpoint;
}

/** The part of a request that decides its answer. */
export interface WeatherRequest {
  /** With its query. */
  url: string;
  accept: string | undefined;
}

export interface WeatherService {
  /** Throws `invalid_parameter`, `unsupported_format`, `template_error` and what the reader throws. */
  answer(endpoint: WeatherEndpoint, request: WeatherRequest): Promise<WeatherAnswer>;
  /** The answer to exactly this request, if it is still cached. */
  hot(request: WeatherRequest): WeatherAnswer | undefined;
}

const mostKept = { entries: 1000, bytes: 32 * 1024 * 1024 };
/** Seconds. */
const maxAgeWithoutData = 15;

/** Answers reads: identical ones share what is under way, and what was rendered is kept for `cacheMs`. */
export function createWeatherService(parts: {
  reader: WeatherReader;
  text: TextRenderer;
  clock: Clock;
  cacheMs: number;
}): WeatherService {
  const { clock, cacheMs } = parts;
  // The same answer by its parsed query, and by the request as written: the latter needs no parsing.
  const byMeaning = new ByteCache<WeatherAnswer>(mostKept);
  const byRequest = new ByteCache<WeatherAnswer>(mostKept);
  const underWay = new Map<string, Promise<{ answer: WeatherAnswer; until: number }>>();

  const produce = async (
    key: string,
    endpoint: WeatherEndpoint,
    query: object,
    as: Representation,
  ): Promise<{ answer: WeatherAnswer; until: number }> => {
    // Counted from before the read: a cached answer is never older than `cacheMs`.
    const until = clock.monotonic() + cacheMs;
    const answer = await answerOf(endpoint, query, as, parts);
    if (cacheMs > 0) byMeaning.set(key, answer, { bytes: answer.bytes + key.length, until });
    return { answer, until };
  };

  return {
    async answer(endpoint, request) {
      const { format, ...query } = endpoint.query.read(request.url);
      const as = negotiate(format, request.accept);
      const key = `${endpoint.path} ${as.mediaType} ${JSON.stringify(query)}`;
      const kept = byMeaning.get(key, clock.monotonic());
      if (kept !== undefined) return kept;
      let shared = underWay.get(key);
      if (shared === undefined) {
        shared = produce(key, endpoint, query, as).finally(() => underWay.delete(key));
        underWay.set(key, shared);
      }
      const { answer, until } = await shared;
      const exactly = requestKey(request);
      const bytes = answer.bytes + exactly.length;
      if (cacheMs > 0) byRequest.set(exactly, answer, { bytes, until });
      return answer;
    },
    hot: (request) => (cacheMs > 0 ? byRequest.get(requestKey(request), clock.monotonic()) : undefined),
  };
}

function requestKey({ url, accept = '' }: WeatherRequest): string {
  return `${url} ${accept}`;
}

async function answerOf(
  endpoint: WeatherEndpoint,
  query: object,
  { format, mediaType }: Representation,
  { reader, text, clock }: { reader: WeatherReader; text: TextRenderer; clock: Clock },
): Promise<WeatherAnswer> {
  const { data, lastModified } = await readFamily(reader, endpoint.family, query);
  const modified = lastModified === null ? [] : [lastModified.getTime()];
  let rendered: string;
  if (format === 'json') rendered = renderJson(data);
  else if (format === 'xml') rendered = renderXml(data, endpoint.itemNames);
  else {
    const request = { endpoint: endpoint.path, parameters: query };
    const made = await text.render(endpoint.template, data, request);
    rendered = made.text;
    modified.push(made.templateModified.getTime());
  }
  const maxAge = data === null ? maxAgeWithoutData : endpoint.maxAgeSeconds;
  return {
    endpoint,
    ...taggedAnswer(mediaType, rendered, {
      headers: { Vary: 'Accept', 'Cache-Control': `public, max-age=${maxAge}` },
      lastModified:
        lastModified === null ? null : new Date(Math.min(Math.max(...modified), clock.now().getTime())),
    }),
  };
}
