import { createHash } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import type { ApiAccess, ApiServices } from '../../src/api/api-services.ts';
import type { ConsoleLogin } from '../../src/api/console/people.ts';
import { newReadiness } from '../../src/api/daemon/readiness.ts';
import { listen } from '../../src/api/http/listen.ts';
import { createLoginLimit } from '../../src/api/http/login-limit.ts';
import { createBodyMemory } from '../../src/api/http/request/request-body.ts';
import { createShares } from '../../src/api/http/request/shares.ts';
import { createMetrics } from '../../src/api/metrics/metrics.ts';
import { problemPage } from '../../src/api/pages/send-page.ts';
import { siteOf } from '../../src/api/pages/site.ts';
import { fetchJson } from '../../src/api/publishers/fetch-json.ts';
import { IssuerKeys } from '../../src/api/publishers/issuer-keys.ts';
import { type Publishers, resolvePublishers } from '../../src/api/publishers/publishers.ts';
import { createStreams } from '../../src/api/runs/event-stream.ts';
import { measuredStage } from '../../src/api/uploads/staged-upload.ts';
import type { StageUpload, UploadPipeline } from '../../src/api/uploads/upload-service.ts';
import { createDaemonApp, type DaemonServices } from '../../src/cli/daemon/daemon-app.ts';
import { newRequestGate } from '../../src/cli/daemon/listener.ts';
import type { Config, PublisherConfig } from '../../src/core/config/config.ts';
import { parseConfig } from '../../src/core/config/load-config.ts';
import { scopes } from '../../src/core/config/schema/schema.ts';
import { type Clock, systemClock } from '../../src/core/lib/clock.ts';
import { replaceable } from '../../src/core/lib/current.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { errorRecord } from '../../src/core/lib/errors.ts';
import { jsonDocument } from '../../src/core/lib/json-document.ts';
import { type Log, type LogControl, logControl } from '../../src/core/lib/log.ts';
import { eventOf } from '../../src/core/notify/event.ts';
import { Notifier } from '../../src/core/notify/notifier.ts';
import { undeliveredInMemory } from '../../src/core/notify/outbox.ts';
import { runFailure } from '../../src/core/publish/results/occurrences.ts';
import type { ReleaseView } from '../../src/core/releases/describe.ts';
import type { ReleaseId } from '../../src/core/releases/release.ts';
import { createWeatherService, newWeatherObserver } from '../../src/weather/api/service.ts';
import type { WeatherReader } from '../../src/weather/reader.ts';
import { createTextRenderer } from '../../src/weather/render/text-renderer.ts';
import { type HealthCheck, queueCheck, stagingChecks } from '../../src/workers/coordinator/health-checks.ts';
import { memoryQueue } from '../../src/workers/memory/memory-queue.ts';
import { cancelled } from '../../src/workers/queue/refusals.ts';
import { inProcessRevokedSessions } from '../../src/workers/queue/revoked-sessions.ts';
import type { RetrySettingsOf } from '../../src/workers/queue/run-retry.ts';
import { contentLimits } from '../../src/workers/staging/content-limits.ts';
import { openContentStore } from '../../src/workers/staging/content-store.ts';
import { type PartialSettings, PartialUploads } from '../../src/workers/staging/partial-uploads.ts';
import { stageWithContent } from '../../src/workers/staging/stage-with-content.ts';
import { newUploadDirectory, removeUploadDirectory } from '../../src/workers/staging/staged-directories.ts';
import { freeBytes } from '../../src/workers/staging/staging-check.ts';
import type { ReleasesAnswer, ReleasesRequest } from '../../src/workers/threads/releases-request.ts';
import { sceneMapPool } from '../../src/workers/threads/scene-map-pool.ts';
import { runResult } from '../contract/queue.ts';
import { neverStale } from '../weather/api/weather-harness.ts';
import { emptyReader } from '../weather/api/weather-reader-stub.ts';

/** `maps` and `docs` accept uploads. The token of `docs` may also start `files`. */
export const tokens = {
  maps: 'token-of-the-pipeline-maps',
  docs: 'token-of-the-pipeline-docs',
  metrics: 'token-of-metrics',
  admin: 'token-of-the-administrator',
  /** These tokens are for all pipelines. */
  expired: 'token-that-has-expired-by-now',
  reader: 'token-that-may-only-be-read-with',
  writer: 'token-that-may-not-read-it',
};

export interface Api {
  origin: string;
  ports: DaemonServices & { logging: LogControl };
  /** Replaces the tokens, as a reload does. */
  reconfigure: (change: (before: ApiAccess) => ApiAccess) => void;
  /** Aborts `ports.stopping`. */
  stop: (reason: Error) => void;
  /** Aborts `ports.draining`. */
  drain: () => void;
  stagingDirectory: string;
  /** The directory with files of uploads. */
  contentDirectory: string;
  /** Entries of the staging directory. */
  staged: () => Promise<string[]>;
  lines: { level: keyof Log; fields: Record<string, unknown>; message: string }[];
}

const grouped = ['uploads', 'runs', 'threads', 'identity', 'health'] as const;
type Grouped = (typeof grouped)[number];

/** Replaces services of the harness. A group keeps its other members. */
export type ReplacedServices = Partial<Omit<DaemonServices, Grouped>> & {
  [Name in Grouped]?: Partial<DaemonServices[Name]>;
};

export interface ApiSettings {
  /** Default: the system clock. */
  clock?: Clock;
  http?: Partial<ApiServices['http']>;
  /** If null, there is no console. */
  console?: null;
  /** Replaces settings of this harness. */
  ports?: ReplacedServices;
  stage?: StageUpload;
  draining?: boolean;
  maxUploadSize?: number;
  /** The maximum for each pipeline. */
  maxWaiting?: number;
  /** How failed runs are retried. Default: not at all. */
  retries?: RetrySettingsOf;
  /** Destinations of each pipeline, for the names of generated outputs. Default: none. */
  destinations?: UploadPipeline['destinations'];
  /** Whether there is space for an upload. Default: yes. */
  room?: DaemonServices['uploads']['room'];
  /** The state that `/metrics` reports. */
  metricsToken?: string;
  /** Limits of partial uploads. */
  resumable?: Partial<PartialSettings>;
  /** Limits of stored uploads. If set, bundles are staged as in the daemon. */
  keep?: Partial<Config['server']['staging']['keep']>;
  /** How long a request waits for another one that uses the same partial upload. */
  holdWaitMs?: number;
  /** The timeout for the head of a request. */
  headersTimeoutMs?: number;
  /** Readiness checks before the built-in ones. */
  checks?: readonly HealthCheck[];
  /** The result of the last probe. Default: true. */
  weatherIsUp?: boolean;
  /** The trusted publishers. Default: none. */
  publishers?: readonly PublisherConfig[];
  /** How users log in to the console without a token. Default: they cannot. */
  login?: ConsoleLogin;
  /** The weather reader. Without it, there is no data. */
  reader?: WeatherReader;
}

/** Resolves trusted publishers. All API hosts of the tests have the same key. */
export function publishersOf(trustedPublishers: readonly PublisherConfig[]): Publishers {
  const { config } = parseConfig(Buffer.from('pipelines: []'), '/etc/waybill.yml', { home: '/' });
  const secrets = { get: () => undefined, require: () => '', warnings: [] };
  return resolvePublishers(
    { ...config, trustedPublishers: [...trustedPublishers] },
    secrets,
    Buffer.alloc(32),
  );
}

/**
 * The whole HTTP side with a real socket, queue and staging directory, but without publications. The
 * notifier `hook` has one undelivered event.
 */
export async function startApi(t: Test, settings: ApiSettings = {}): Promise<Api> {
  const { clock = systemClock } = settings;
  const directory = await mkdtemp(path.join(tmpdir(), 'waybill-api-'));
  // Next to the staging of complete uploads, which the tests inspect.
  const partial = await mkdtemp(path.join(tmpdir(), 'waybill-partial-'));
  const lines: Api['lines'] = [];
  const note =
    (level: keyof Log) =>
    (fields: object, message: string): void =>
      void lines.push({ level, fields: { ...fields }, message });
  const log: Log = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
  const http = {
    host: '127.0.0.1',
    port: 0,
    basePath: '/',
    trustedProxies: [],
    allowedHosts: null,
    retentionMs: 60_000,
    queueSize: 10,
    maxConcurrency: 1,
    uploadTimeoutMs: 600_000,
    idleTimeoutMs: 600_000,
    maxConnections: 1_000,
    maxStreams: 1_000,
    maxStreamsPerClient: 1_000,
    maxUploadsPerToken: 1_000,
    maxBodyMemory: 64 * 1024 * 1024,
    shutdownTimeoutMs: 0,
    protectRuns: false,
    protectSceneMaps: false,
    cors: null,
    ...settings.http,
  };
  const stopping = new AbortController();
  const draining = new AbortController();
  if (settings.draining === true) draining.abort();
  const queue = memoryQueue({
    ...http,
    clock,
    log,
    maxWaitingOf: () => settings.maxWaiting ?? null,
    onExpire: async () => undefined,
    ...(settings.retries === undefined ? {} : { retries: settings.retries }),
  });
  const metrics = createMetrics({
    version: '1.2.3',
    nodeVersion: process.version,
    pipelineIds: ['maps', 'docs', 'files'],
  });
  const undelivered = undeliveredInMemory();
  await undelivered.store('hook', {
    event: eventOf(runFailure('maps', 'maps.1', errorRecord(cancelled())), 'msg_1', new Date(0)),
    tries: 4,
    reason: 'the receiver answered 503',
    givenUpAt: new Date(1).toISOString(),
  });
  const notifier = new Notifier({
    notifiers: [
      {
        config: { id: 'hook', kind: 'log', events: [], acts: null, pipelines: null },
        sink: {
          concurrency: 1,
          timeoutMs: 5_000,
          send: async () => ({ ok: true }),
          close: async () => undefined,
        },
      },
    ],
    clock,
    log,
    onOutcome: () => undefined,
    undelivered,
  });
  const limits = {
    maxUploadSize: settings.maxUploadSize ?? 1_000,
    maxFiles: 10,
    sceneMaps: { contentRules: 'warning' as const },
  };
  const { config } = parseConfig(Buffer.from('pipelines: []'), '/etc/waybill.yml', { home: '/' });
  const configured = replaceable<ApiAccess>({
    publishers: publishersOf(settings.publishers ?? []),
    tokens: [
      { id: 'ci', hash: sha256(tokens.maps), pipelines: new Set(['maps']), ...unlimited },
      { id: 'writer', hash: sha256(tokens.docs), pipelines: new Set(['docs', 'files']), ...unlimited },
      { id: 'old', hash: sha256(tokens.expired), pipelines, ...unlimited, expiresAt: new Date(0) },
      { id: 'reader', hash: sha256(tokens.reader), pipelines, ...unlimited, scopes: new Set(['read']) },
      {
        id: 'pusher',
        hash: sha256(tokens.writer),
        pipelines,
        ...unlimited,
        scopes: new Set(['upload', 'run', 'cancel', 'releases']),
      },
    ],
    adminToken: {
      id: 'server.admin_token_env',
      hash: sha256(tokens.admin),
      pipelines: new Set(),
      ...unlimited,
    },
    login: settings.login ?? null,
    uploadPipelines: new Map(
      ['maps', 'docs'].map((id) => [
        id,
        {
          id,
          ...limits,
          destinations: settings.destinations ?? [],
          channels: id === 'maps' ? ['preview'] : [],
        },
      ]),
    ),
    pipelineIds: pipelines,
    notifierIds: new Set(['hook']),
    places: new Map([...pipelines].map((id) => [id, new Map([['web', `/srv/${id}`]])])),
    notifierPlaces: new Map([['hook', 'hooks.example.org']]),
    sourcePipelines: new Map([['files', ['preview']]]),
    pipelines: [...pipelines].map((id) => ({
      pipeline_id: id,
      source: { backend: id === 'files' ? 'local' : 'http_upload' },
      destinations: [
        {
          destination_id: 'web',
          backend: 'local',
          mapping: 'preserve_relative',
          workflow: 'additive',
          layout: 'in_place',
          public_base_url: null,
          max_rate: null,
        },
      ],
      schedule: id === 'files' ? { cron: '@daily', timezone: 'Europe/Berlin', catch_up: 'once' } : null,
      watch: id === 'files',
    })),
    metricsToken:
      settings.metricsToken === undefined ? null : { id: 'metrics', hash: sha256(settings.metricsToken) },
  });
  const partialUploads = await PartialUploads.open({
    staging: partial,
    clock,
    log,
    settings: { maxUploads: 10, maxBytes: 10_000_000, retentionMs: 60_000, ...settings.resumable },
    holdWaitMs: settings.holdWaitMs ?? 10_000,
  });
  const content = await openContentStore({
    // Links are only possible within one file system, so use the one of temporary files.
    staging: partial,
    clock,
    log,
    ...contentLimits({ maxBytes: 1_000_000, ageMs: 60_000, ...settings.keep }, () => 1_000_000),
    shortage: async () => 0,
  });
  const sceneMaps = sceneMapPool({ config, env: {}, clock: systemClock, log });
  const weatherHealth = { isHealthy: () => settings.weatherIsUp ?? true };
  const ports: Api['ports'] = {
    http,
    clock,
    log,
    problemPage: problemPage(siteOf({ http, console: {} })),
    logging: logControl(),
    configured,
    reload: async () => ({ added: [], changed: [], removed: [], restartNeeded: [], warnings: [] }),
    notifier,
    scheduler: { nextRun: (id) => (id === 'files' ? new Date('2026-11-20T23:00:00Z') : null) },
    queue,
    runs: {
      onCancelled: ({ pipelineId }) => metrics.runs.cancelled(pipelineId),
      streams: createStreams(http.maxStreams, http.maxStreamsPerClient),
      lines: { linesOf: () => [] },
    },
    metrics,
    weather: createWeatherService({
      reader: settings.reader ?? emptyReader,
      text: createTextRenderer('templates/weather'),
      clock,
      settings: { cacheMs: 0, staleAfter: neverStale },
      observer: newWeatherObserver(log, metrics),
    }),
    uploads: {
      archives: createShares({ total: Infinity, perOwner: http.maxUploadsPerToken ?? Infinity }),
      staging: {
        create: () => newUploadDirectory(directory),
        discard: (staged) => removeUploadDirectory(directory, staged),
      },
      room: settings.room ?? (async () => undefined),
      stage: measuredStage(
        settings.stage ?? (settings.keep === undefined ? stageAnything : stageWithContent(content)),
        metrics,
      ),
      content,
      partialUploads,
    },
    threads: {
      plan: async () => planned,
      releases: async (request) => answered(request),
      inspect: async () => ({ kind: 'catalog', paths: [], pathsOmitted: 0, catalog: null }),
    },
    identity: {
      issuerKeys: new IssuerKeys(clock, fetchJson),
      revokedSessions: inProcessRevokedSessions({ clock }),
      exchangeLimit: createLoginLimit(clock),
    },
    health: {
      readiness: newReadiness({
        clock,
        log,
        checks: [
          ...(settings.checks ?? []),
          queueCheck(queue, { remedy: '' }),
          ...stagingChecks(directory, { clock, everyMs: 0 }),
        ],
        isDraining: () => draining.signal.aborted,
        weatherHealth,
      }),
      weather: weatherHealth,
    },
    console: settings.console === null ? null : consoleSettings,
    stopping: stopping.signal,
    sceneMaps,
    bodyMemory: createBodyMemory(http.maxBodyMemory),
    draining: draining.signal,
  };
  Object.assign(ports, {
    ...settings.ports,
    ...Object.fromEntries(grouped.map((name) => [name, { ...ports[name], ...settings.ports?.[name] }])),
  });
  // The daemon also listens before it can answer.
  const entrance = newRequestGate();
  const server = await listen(
    entrance.listener,
    { ...http, headersTimeoutMs: settings.headersTimeoutMs ?? 30_000 },
    ports,
  );
  entrance.open(createDaemonApp(ports));
  const { connections } = server;
  metrics.observe({
    driver: 'memory',
    pipelines: () => configured.get().pipelineIds,
    queue,
    threads: () => ({ threads: 2, busy: 1, replaced: 3 }),
    connections,
    streams: ports.runs.streams.stats,
    readiness: ports.health.readiness,
    partialUploads: () => partialUploads.stats(),
    content: () => content.stats(),
    freeBytes: () => freeBytes(directory),
    weather: { isHealthy: () => true },
    notifiers: () => configured.get().notifierIds,
    undelivered: () => undelivered.counts(),
  });
  t.teardown(async () => {
    stopping.abort(new Error('the test is over'));
    await queue.close(0);
    await server.close();
    await partialUploads.close();
    await content.close();
    await sceneMaps.close();
    for (const place of [directory, partial]) await rm(place, { recursive: true, force: true });
  });
  return {
    origin: server.origin,
    ports,
    reconfigure: (change) => configured.replace(change(configured.get())),
    stop: (reason) => stopping.abort(reason),
    drain: () => draining.abort(),
    stagingDirectory: directory,
    contentDirectory: path.join(partial, 'content'),
    staged: () => readdir(directory),
    lines,
  };
}

const consoleSettings = { sessionMs: 3_600_000, sessionKey: 'of-the-tests-and-long-enough-for-them' };

const pipelines = new Set(['maps', 'docs', 'files']);
const unlimited = { scopes: new Set(scopes), expiresAt: null };

/** The plan for any staged bundle. */
const planned = { ...runResult('ok').run, dryRun: true };

/** The second of two releases is current. */
function answered(request: ReleasesRequest): ReleasesAnswer {
  const first = '20261120T000000Z-00000001' as ReleaseId;
  const second = '20261121T000000Z-00000002' as ReleaseId;
  const destinationPath = request.path ?? '.';
  if (request.kind === 'activate') return { kind: 'activate', destinationPath, from: second, to: first };
  const common = { state: 'complete', isRolledBack: false, isBeingRemoved: false } as const;
  const held = { outputs: 1, bytes: 1, activatedAt: '2026-11-20T00:00:00Z', writtenAt: null, bundle: null };
  const view = (id: ReleaseId, isCurrent: boolean): ReleaseView => ({
    ...{ ...common, ...held, id, isCurrent, isLastGood: !isCurrent, channels: [] },
    leftAt: isCurrent ? null : '2026-11-21T00:00:00Z',
  });
  const releases = [view(second, true), view(first, false)];
  const about = { pipelineId: request.pipelineId, destinationId: request.destinationId, destinationPath };
  const none = { added: [], removed: [], changed: [], same: 1, warnings: [] };
  if (request.kind === 'diff') {
    const text = jsonDocument('release-diff', { ...about, from: first, to: second, ...none }, 0);
    return { kind: 'document', text };
  }
  if (request.kind === 'show') {
    const release = { ...view(second, true), files: [] };
    return {
      kind: 'document',
      text: jsonDocument('release', { ...about, release, error: null, warnings: [] }, 0),
    };
  }
  return {
    kind: 'list',
    paths: [{ destinationPath, current: second, foreignTarget: null, channels: [], releases }],
  };
}

/** Treats every body as a bundle whose manifest is the body. */
export const stageAnything: StageUpload = async ({ input, directory }) => {
  const chunks: Uint8Array[] = [];
  for await (const chunk of input) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  const manifest = { name: null, files: [], document: {} };
  return {
    directory,
    bundlePath: 'session-1',
    manifest,
    contentDigest: digestOf(body),
    description: digestOf(body),
    bytes: 2 * body.length,
  };
};

export interface UploadOptions {
  /** The query string, with its `?`. */
  query?: string;
  pipeline?: string;
  token?: string | null;
  headers?: Record<string, string>;
  body?: string | Buffer;
}

/** Uploads with the headers of a good client, except for the given options. */
export function upload(
  origin: string,
  { query = '', pipeline = 'maps', token = tokens.maps, headers = {}, body = 'x' }: UploadOptions = {},
): Promise<Response> {
  return fetch(`${origin}/v1/pipelines/${pipeline}/upload${query}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-tar',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body,
  });
}

/** The same as a browser sends it: a form with the body as its only file. */
export async function uploadForm(
  origin: string,
  { query = '', pipeline = 'maps', token = tokens.maps, headers = {}, body = 'x' }: UploadOptions = {},
): Promise<Response> {
  const form = new FormData();
  form.set('bundle', new Blob([body]), 'bundle.tar');
  const encoded = new Response(form);
  return fetch(`${origin}/v1/pipelines/${pipeline}/upload/form${query}`, {
    method: 'POST',
    headers: {
      'content-type': encoded.headers.get('content-type') ?? '',
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      ...headers,
    },
    body: await encoded.arrayBuffer(),
  });
}

/** A TCP connection on which the test writes requests itself. */
export interface RawConnection {
  socket: net.Socket;
  /** Everything received so far. */
  received: () => string;
  /** Resolves once the received text matches. */
  until: (form: RegExp) => Promise<string>;
  /** Resolves to the whole text once the server has closed the connection. */
  closed: Promise<string>;
}

export async function connect(t: Test, origin: string): Promise<RawConnection> {
  const { hostname, port } = new URL(origin);
  const socket = net.connect({ host: hostname, port: Number(port) });
  t.teardown(() => socket.destroy());
  let text = '';
  let look: () => void = () => undefined;
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
    look();
  });
  const closed = new Promise<string>((resolve, reject) => {
    socket.on('close', () => resolve(text)).on('error', reject);
  });
  // A reset also rejects pending `until` calls through the test's timeout. A test that expects no reset
  // awaits `closed`.
  closed.catch(() => undefined);
  await new Promise<void>((resolve) => socket.once('connect', () => resolve()));
  return {
    socket,
    received: () => text,
    closed,
    until: (form) =>
      new Promise((resolve) => {
        look = () => {
          if (form.test(text)) resolve(text);
        };
        look();
      }),
  };
}

/** The head of an upload, to write on a raw connection. */
export function uploadHead(
  headers: Record<string, string | number> = {},
  path = '/v1/pipelines/maps/upload',
): string {
  const all = {
    Host: 'x',
    Authorization: `Bearer ${tokens.maps}`,
    'Content-Type': 'application/x-tar',
    ...headers,
  };
  return `POST ${path} HTTP/1.1\r\n${Object.entries(all)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`;
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
