import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import type { Test } from 'tap';
import type { HttpPorts } from '../../../src/api/http/http-app.ts';
import type { WeatherMetrics } from '../../../src/api/metrics/weather-metrics.ts';
import type { Clock } from '../../../src/core/lib/clock.ts';
import { type Log, logControl, silentLog } from '../../../src/core/lib/log.ts';
import {
  createWeatherService,
  newWeatherObserver,
  type WeatherPorts,
} from '../../../src/weather/api/service.ts';
import { type FamilyName, familyNames } from '../../../src/weather/families.ts';
import type { WeatherReader } from '../../../src/weather/reader.ts';
import { createReaderApp } from '../../../src/weather/reader-app.ts';
import { createTextRenderer } from '../../../src/weather/render/text-renderer.ts';

const staleAfter = (ms: number): Record<`${FamilyName}Ms`, number> =>
  Object.fromEntries(familyNames.map((name) => [`${name}Ms`, ms])) as Record<`${FamilyName}Ms`, number>;
export const neverStale = staleAfter(Infinity);
export const shippedTemplates = resolve('templates/weather');

export interface WeatherHarness {
  reader: WeatherReader;
  clock: Clock;
  cacheMs?: number;
  templates?: string;
  log?: Log;
  /** The same for every family. By default, nothing is stale. */
  staleAfterMs?: number;
  weatherMetrics?: WeatherMetrics;
  cors?: { origins: string[] };
  basePath?: string;
}

/** The dependencies of the weather routes, with the caller's reader. */
export function weatherPorts(settings: WeatherHarness): WeatherPorts & HttpPorts & { metrics: null } {
  const { reader, clock, cacheMs = 0, templates = shippedTemplates, log = silentLog } = settings;
  const weather = createWeatherService({
    reader,
    clock,
    settings: { cacheMs, staleAfter: staleAfter(settings.staleAfterMs ?? Infinity) },
    text: createTextRenderer(templates),
    observer: newWeatherObserver(log, settings.weatherMetrics ?? null),
  });
  const http = {
    host: '127.0.0.1',
    port: 0,
    basePath: settings.basePath ?? '/',
    trustedProxies: [],
    allowedHosts: null,
    retentionMs: 1,
    queueSize: 1,
    maxConcurrency: 1,
    uploadTimeoutMs: 1,
    idleTimeoutMs: 1,
    maxConnections: 100,
    maxStreams: 100,
    maxStreamsPerClient: 1_000,
    maxUploadsPerToken: 1_000,
    maxBodyMemory: 1,
    shutdownTimeoutMs: 1,
    protectRuns: false,
    protectSceneMaps: false,
    cors: settings.cors ?? null,
  };
  return { http, clock, log, logging: logControl(), metrics: null, weather };
}

/** The weather routes alone on a free port, with the caller's reader. Closed by the teardown. */
export async function startWeather(t: Test, settings: WeatherHarness): Promise<string> {
  const ports = weatherPorts(settings);
  const server = createServer(createReaderApp(ports));
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
