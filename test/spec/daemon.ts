import { once } from 'node:events';
import type { Test } from 'tap';
import { type Daemon, startDaemon } from '../cli/daemon.ts';
import { tar } from '../fixtures/tar.ts';
import { manifest, program, World } from './harness.ts';

/* A daemon with upload pipelines, and the requests of a producer. */

export const tokens = { TOKEN_CI: 'a-token-of-all-producers', TOKEN_SECOND: 'another-token-of-a-producer' };

/** A configuration with two upload pipelines, `up` and `other`; `http` are further settings of the API. */
export function uploads(http: string): string {
  return `
upload_tokens:
  - {id: ci, value_env: TOKEN_CI, pipelines: [up, other]}
  - {id: second, value_env: TOKEN_SECOND, pipelines: [up]}
server: {http: {listen: "127.0.0.1:0", ${http}}, staging: {directory: ./staging}}
pipelines:
  - id: up
    source: {backend: http_upload, max_upload_size: 100KiB, max_files: 5}
    destinations: [{id: web, backend: local, path: ./up, mapping: fixed, stale: publish}]
  - id: other
    source: {backend: http_upload}
    destinations: [{id: web, backend: local, path: ./other, mapping: fixed, stale: publish}]
`;
}

export interface Upload {
  pipeline?: string;
  token?: string | null;
  type?: string;
  key?: string;
  body?: Buffer;
}

export interface RunRecord {
  run_id: string;
  status: string;
}

/** The API of one daemon. */
export class Api {
  readonly world: World;
  readonly #test: Pick<Test, 'teardown'>;
  #daemon: Daemon;

  private constructor(t: Pick<Test, 'teardown'>, world: World, daemon: Daemon) {
    this.world = world;
    this.#test = t;
    this.#daemon = daemon;
  }

  static async start(
    t: Pick<Test, 'teardown'>,
    world: World,
    env: Record<string, string> = tokens,
  ): Promise<Api> {
    return new Api(t, world, await startDaemon(t, world.root, env, program));
  }

  /** Ends the daemon and starts it again. */
  async restart(): Promise<void> {
    const { process: child } = this.#daemon;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
    this.#daemon = await startDaemon(this.#test, this.world.root, tokens, program);
  }

  get port(): number {
    return this.#daemon.port;
  }

  async get(path: string, headers: Record<string, string> = {}): Promise<Response> {
    return fetch(new URL(path, this.#daemon.url), { headers });
  }

  async upload({ pipeline = 'up', token, type, key, body }: Upload = {}): Promise<Response> {
    const bearer = token === undefined ? tokens.TOKEN_CI : token;
    return fetch(new URL(`v1/pipelines/${pipeline}/upload`, this.#daemon.url), {
      method: 'POST',
      headers: {
        'content-type': type ?? 'application/x-tar',
        ...(bearer === null ? {} : { authorization: `Bearer ${bearer}` }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
      },
      body: body ?? archive({ 'a.txt': 'a' }),
    });
  }

  /** The record of an upload that must be accepted. */
  async accepted(upload: Upload = {}): Promise<RunRecord> {
    const response = await this.upload(upload);
    const record = (await response.json()) as RunRecord;
    if (record.status !== 'accepted') throw new Error(JSON.stringify(record));
    return record;
  }

  /** The status of a run, or null if there is no record. */
  async status(runId: string): Promise<string | null> {
    const response = await this.get(`runs/${runId}`);
    return response.ok ? ((await response.json()) as RunRecord).status : null;
  }

  /** Resolves once the run has one of these statuses. null means that its record is deleted. */
  async until(runId: string, ...statuses: (string | null)[]): Promise<string | null> {
    for (;;) {
      const status = await this.status(runId);
      if (statuses.includes(status)) return status;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async ended(runId: string): Promise<string | null> {
    return this.until(runId, 'succeeded', 'failed');
  }
}

/** A tar archive of a bundle. */
export function archive(files: Record<string, string>, created = '2026-11-20T00:00:00Z'): Buffer {
  return tar(
    { path: 'manifest.json', body: manifest(Object.keys(files), created) },
    ...Object.entries(files).map(([path, body]) => ({ path, body })),
  );
}
