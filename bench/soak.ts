/**
 * Thousands of uploads through one daemon with a short run retention. Clients abort one in ten. Memory,
 * handles and disk usage must stay flat. BENCH_UPLOADS: the number of uploads (5000).
 */
import { mkdirSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { bundleTar } from '../test/fixtures/tar.ts';
import { stagedIn } from '../test/support/staged.ts';
import { inParallel, send } from './client.ts';
import { startDaemon, token } from './daemon.ts';
import { goal } from './measure.ts';

const uploads = Number(process.env['BENCH_UPLOADS'] ?? 5000);
const samples = 40;
// Threads reach their final size within about three thousand uploads.
const warmUps = 32;
const pipelines = 20;

interface Sample {
  residentMiB: number;
  handles: number;
  staged: number;
}

/** Returns true if every goal was reached. */
export async function soak(): Promise<boolean> {
  const root = path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-soak');
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { recursive: true });
  const daemon = await startDaemon({
    root,
    pipelines,
    http: 'queue_size: 200, retention: 2s, max_concurrency: 4',
  });
  const staging = path.join(root, 'staging');
  try {
    const taken: Sample[] = [];
    for (let round = -warmUps; round < samples; round += 1) {
      await inParallel(uploads / samples, 16, async (index) => {
        const number = (warmUps + round) * (uploads / samples) + index;
        // The same few bundles, so that the published size stays constant.
        const body = bundleTar({ 'data.txt': `${number} `.repeat(2000) }, { name: `session-${index}` });
        if (index % 10 === 9) await giveUp(daemon.url, body);
        else await sendPatiently(daemon.url, `p${index % pipelines}`, body);
      });
      if (round >= 0)
        taken.push({
          residentMiB: daemon.memory().residentMiB,
          handles: daemon.handles(),
          staged: stagedIn(staging).length,
        });
    }
    // Waits until all runs are finished and removed.
    for (let left = 100; stagedIn(staging).length > 0 && left > 0; left -= 1)
      await new Promise((resolve) => setTimeout(resolve, 100));
    const quarter = samples / 4;
    const [before, after] = [taken.slice(0, quarter), taken.slice(-quarter)];
    const of = (which: Sample[], what: keyof Sample): number =>
      which.map((sample) => sample[what]).sort((a, b) => a - b)[Math.floor(which.length / 2)]!;
    console.log(
      `\n${uploads} uploads over ${pipelines} pipelines, one in ten given up; medians of the first and of the last quarter, after ${(warmUps * uploads) / samples} to warm up`,
    );
    const grown = of(after, 'residentMiB') / of(before, 'residentMiB');
    const left = stagedIn(staging).length;
    return [
      goal(
        `memory ${of(before, 'residentMiB').toFixed(0)} → ${of(after, 'residentMiB').toFixed(0)} MiB, ${grown.toFixed(2)} × (goal at most 1.15 ×)`,
        grown <= 1.15,
      ),
      goal(
        `open files ${of(before, 'handles')} → ${of(after, 'handles')} (goal: no more than 8 more)`,
        of(after, 'handles') <= of(before, 'handles') + 8,
      ),
      goal(
        `staged uploads ${of(before, 'staged')} → ${of(after, 'staged')}, and ${left} in the end (goal 0)`,
        left === 0,
      ),
    ].every(Boolean);
  } finally {
    await daemon.stop();
    rmSync(root, { recursive: true, force: true });
  }
}

/** Retries when the queue is full, as a well-behaved client does. */
async function sendPatiently(url: string, pipeline: string, body: Buffer): Promise<void> {
  for (;;)
    try {
      await send(url, pipeline, body);
      return;
    } catch (error) {
      if (!(error instanceof Error) || !error.message.startsWith('503')) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

/** Sends half of a bundle and disconnects. */
function giveUp(url: string, body: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const headers = {
      authorization: `Bearer ${token}`,
      'content-type': 'application/x-tar',
      'content-length': body.length,
    };
    const outgoing = request(`${url}v1/pipelines/p0/upload`, { method: 'POST', headers, agent: false });
    outgoing.on('error', () => undefined).on('close', () => resolve());
    outgoing.write(body.subarray(0, body.length / 2), () => outgoing.destroy());
  });
}
