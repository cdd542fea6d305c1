import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Page } from 'playwright-core';
import * as tar from 'tar';
import { type RunningServer, serve } from '../../src/cli/daemon/serve.ts';
import { startWorker } from '../../src/cli/daemon/worker.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { RunRecord } from '../../src/workers/queue/run-record.ts';
import type { Lifetime } from './page-sets.ts';
import { setBackCatalogs } from './set-back.ts';

/**
 * `operator` has every pipeline except `secret`. `ci` uploads to `maps`. `guest` has `library`, read-only.
 */
export const consoleTokens = {
  operator: 'the-token-of-the-operator-of-all',
  ci: 'the-token-of-the-continuous-build',
  guest: 'the-token-of-a-guest-who-may-read',
  admin: 'the-token-of-whoever-runs-the-daemon',
};

export interface ConsoleDaemon {
  served: RunningServer;
  /** The base URL, which ends with `/`. */
  base: string;
  /** The directory of the daemon. */
  root: string;
  /** Uploads a bundle to `maps`. Resolves to the record once the run is over. */
  publish: (files: Record<string, string>, options?: PublishOptions) => Promise<RunRecord>;
  /** Uploads a bundle. Resolves to the id of its run. */
  accept: (files: Record<string, string>, options?: PublishOptions) => Promise<string>;
  /** A tar of these files and a manifest. */
  archive: (files: Record<string, string>, created: string) => Promise<Buffer>;
  /** Starts a run from a source. Resolves to the record once the run is over. */
  start: (pipelineId: string) => Promise<RunRecord>;
  follow: (runId: string) => Promise<RunRecord>;
  /** Pauses a pipeline, for a reason. */
  pause: (pipelineId: string, reason: string) => Promise<void>;
  /** Starts a worker of the same configuration. */
  work: () => Promise<{ close: () => Promise<unknown> }>;
  /** Pauses `maps` during `work`, and until `letGo` is called. */
  held: (work: () => Promise<string>) => Promise<{ runId: string; letGo: () => Promise<void> }>;
  /**
   * Locks `session-1` at `web` like another publisher, so that a run that publishes it waits for `unlock`.
   */
  lock: () => { unlock: () => void };
}

interface PublishOptions {
  name?: string;
  created?: string;
  pipeline?: string;
  /** The token. Default: the token of the operator. */
  token?: string;
  /** The kinds of special files. */
  kinds?: Record<string, string>;
}

function configuration(queue: string): string {
  return `
audit: {}
upload_tokens:
  - {id: operator, value_env: T_OPERATOR, pipelines: [maps, library, blocked]}
  - {id: ci, value_env: T_CI, pipelines: [maps], scopes: [upload, read]}
  - {id: guest, value_env: T_GUEST, pipelines: [library], scopes: [read]}
server:
  http: {listen: "127.0.0.1:0", retention: 30d}
  admin_token_env: T_ADMIN
  staging: {directory: ./staging}
  queue: ${queue}
pipelines:
  - id: maps
    source: {backend: http_upload, max_upload_size: 50MiB}
    destinations:
      - {id: web, backend: local, path: ./public/web, mapping: preserve_relative, public_base_url: https://maps.example.org/, outputs: {scene_map_page: true}}
      - {id: site, backend: local, path: ./public/site, mapping: fixed, layout: releases, releases: {channels: {preview: {}}}}
  - id: library
    source: {backend: local, path: ./library}
    schedule: "@daily"
    destinations:
      - {id: shelf, backend: local, path: ./public/shelf}
      - {id: draft, backend: local, path: ./public/draft, layout: releases, releases: {channels: {preview: {}}}}
  - id: blocked
    source: {backend: local, path: ./library}
    destinations: [{id: full, backend: local, path: ./public/full, mapping: fixed}]
  - id: secret
    source: {backend: http_upload}
    destinations: [{id: vault, backend: local, path: ./public/vault}]
notifiers:
  - {id: journal, kind: file, path: ./journal/events.jsonl, events: [bundle.publish_failed], pipelines: [blocked]}
`;
}

/**
 * A daemon with published content, and a pipeline whose destination contains unmanaged files. Its events are
 * undelivered until the directory `journal` exists.
 */
export async function startConsole(
  t: Lifetime,
  queue = '{driver: memory}',
  more: Record<string, string> = {},
): Promise<ConsoleDaemon> {
  const beganMs = Date.now();
  const root = mkdtempSync(path.join(tmpdir(), 'waybill-'));
  const configFile = path.join(root, 'waybill.yml');
  for (const place of ['web', 'site', 'shelf', 'draft', 'full', 'vault'])
    mkdirSync(path.join(root, 'public', place), { recursive: true });
  cpSync('examples/demo/bundles', path.join(root, 'library'), { recursive: true });
  writeFileSync(path.join(root, 'public/full/index.html'), 'an unmanaged file');
  writeFileSync(configFile, configuration(queue));
  const { operator, ci, guest, admin } = consoleTokens;
  const env = { T_OPERATOR: operator, T_CI: ci, T_GUEST: guest, T_ADMIN: admin, HOME: root, ...more };
  const served = await serve({ configFile, log: silentLog, env });
  t.teardown(async () => {
    await served.close();
    rmSync(root, { recursive: true, force: true });
  });
  const base = served.url;
  const follow = async (runId: string): Promise<RunRecord> => {
    for (;;) {
      const record = (await (await fetch(`${base}runs/${runId}?wait=30`)).json()) as RunRecord;
      if (record.finished_at === null) continue;
      const isPast = Date.parse(record.finished_at) < beganMs;
      if (isPast) setBackCatalogs(path.join(root, 'public'), beganMs, record.finished_at);
      return record;
    }
  };
  const post = async (path: string, token: string, init: RequestInit = {}): Promise<{ run_id: string }> => {
    const headers = { authorization: `Bearer ${token}`, ...(init.headers as Record<string, string>) };
    const response = await fetch(`${base}v1/pipelines/${path}`, { ...init, method: 'POST', headers });
    if (!response.ok) throw new Error(await response.text());
    return (await response.json()) as { run_id: string };
  };
  const accept: ConsoleDaemon['accept'] = async (files, options = {}) => {
    const { name = 'session-1', created = '2026-11-20T01:02:03Z', pipeline = 'maps', kinds } = options;
    const { token = operator } = options;
    const init = {
      headers: { 'content-type': 'application/x-tar' },
      body: new Uint8Array(await packed(root, files, { name, created, kinds })),
    };
    return (await post(`${pipeline}/upload`, token, init)).run_id;
  };
  return {
    ...{ served, base, root, accept, follow },
    work: () => startWorker({ configFile, log: silentLog, env }),
    publish: async (files, options) => follow(await accept(files, options)),
    archive: (files, created) => packed(root, files, { name: 'session-1', created }),
    pause: async (pipelineId, reason) => {
      const headers = { 'content-type': 'application/json' };
      await post(`${pipelineId}/pause`, admin, { headers, body: JSON.stringify({ reason }) });
    },
    start: async (pipelineId) => follow((await post(`${pipelineId}/runs`, operator)).run_id),
    lock: () => {
      const directory = path.join(root, 'public/web/session-1');
      const file = path.join(directory, '.publisher.lock');
      const unknown = { boot_id: null, process: null, thread: null };
      const lock = { host: 'another.example', pid: 1, ...unknown, instance_id: '1', renewals: 0 };
      mkdirSync(directory, { recursive: true });
      writeFileSync(file, `${JSON.stringify(lock)}\n`);
      return { unlock: () => rmSync(file) };
    },
    held: async (work) => {
      await post('maps/pause', admin);
      return {
        runId: await work(),
        letGo: async () => {
          await post('maps/resume', admin);
        },
      };
    },
  };
}

/** A tar of these files and a manifest that lists them, or the given manifest. */
export async function packed(
  root: string,
  files: Record<string, string>,
  { name, created, kinds = {} }: { name: string; created: string; kinds?: PublishOptions['kinds'] },
): Promise<Buffer> {
  const directory = mkdtempSync(path.join(root, 'bundle-'));
  const listed = Object.keys(files).map((path) =>
    kinds[path] === undefined ? path : { path, kind: kinds[path] },
  );
  const manifest = { schema_version: 1, name, created, files: listed };
  for (const [file, text] of Object.entries({ 'manifest.json': JSON.stringify(manifest), ...files })) {
    mkdirSync(path.dirname(path.join(directory, file)), { recursive: true });
    writeFileSync(path.join(directory, file), text);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of tar.create({ cwd: directory, portable: true }, [
    'manifest.json',
    ...Object.keys(files).filter((file) => file !== 'manifest.json'),
  ]))
    chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Opens the console like a user, and logs in with a token. */
export async function logIn(page: Page, base: string, token: string = consoleTokens.operator): Promise<void> {
  await page.goto(`${base}console`);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.waitForURL(`${base}console`);
}
