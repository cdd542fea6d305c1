import { Agent, type IncomingMessage, request } from 'node:http';
import { token } from './daemon.ts';

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Uploads an archive. Returns the path of the run in the response. Throws if the upload is rejected. */
export async function send(url: string, pipeline: string, archive: Buffer): Promise<string> {
  const response = await call(`${url}v1/pipelines/${pipeline}/upload`, archive);
  if (response.status !== 202) throw new Error(`${response.status}: ${response.text}`);
  return response.location;
}

export interface Run {
  status: string;
  started_at: string;
  finished_at: string;
  error: unknown;
}

/**
 * Waits for a run to finish and returns it. The daemon delays the response until then, so there is no polling
 * that could affect the measurement. Throws if the run failed.
 */
export async function finished(url: string, location: string): Promise<Run> {
  for (;;) {
    const run = JSON.parse((await call(new URL(`${location}?wait=30`, url).href)).text) as Run;
    if (run.status === 'failed') throw new Error(JSON.stringify(run.error));
    if (run.status === 'succeeded') return run;
  }
}

/** Calls `work` with each number from 0 to `count` - 1. No more than `width` calls run at the same time. */
export async function inParallel(
  count: number,
  width: number,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: width }, async () => {
      for (let index = next++; index < count; index = next++) await work(index);
    }),
  );
}

function call(url: string, body?: Buffer): Promise<{ status: number; text: string; location: string }> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/x-tar' };
    const options = body === undefined ? { agent } : { agent, method: 'POST', headers };
    const outgoing = request(url, options, (response: IncomingMessage) => {
      const chunks: Buffer[] = [];
      response
        .on('data', (chunk: Buffer) => chunks.push(chunk))
        .on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            text: Buffer.concat(chunks).toString(),
            location: response.headers.location ?? '',
          }),
        )
        .on('error', reject);
    });
    outgoing.on('error', reject).end(body);
  });
}
