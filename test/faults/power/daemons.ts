import { appendFileSync, readFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import type { Test } from 'tap';
import { newestFirst } from '../../../src/core/audit/read-trail.ts';
import { verifyTrail } from '../../../src/core/audit/verify-trail.ts';
import { verify } from '../../../src/core/maintain/verify.ts';
import { localStorage } from '../../../src/core/storage/local/local-storage.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { bundle, launchApi, layOut, type Place, upload } from '../../hosts/processes.ts';
import type { Protocol } from './losses.ts';
import { readRecording, snapshot, traced } from './record.ts';

/*
 * The daemon with the embedded queue and an audit trail. After the restart, every upload that was answered
 * with 202 is published, and the trail has its record. Readers see the files of every run that was reported
 * as succeeded. The daemon starts after any loss and accepts uploads.
 */

export function daemons(t: Test): Protocol {
  const place = layOut(t, { embedded: './state/queue' });
  appendFileSync(place.config, 'audit: {}\n');
  return {
    name: 'a daemon',
    remains: ['nothing', 'names', 'torn', 'anything'],
    promise: /^HTTP\/1\.1 202/,
    needs: /fdatasync|staging/,
    record: async (trace) => {
      const root = snapshot(place.root);
      const daemon = await launchApi(t, place, ['serve'], ['strace', ...traced(trace, [])[1]]);
      for (const name of ['one', 'two']) await untilFinished(daemon.url, await accepted(daemon.url, name));
      const { pid } = daemon.child;
      const traceeOf = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
      const ended = new Promise((resolve) => daemon.child.once('close', resolve));
      process.kill(Number(traceeOf), 'SIGTERM');
      await ended;
      return readRecording(root, place.root, readFileSync(trace, 'latin1'));
    },
    wrong: (_, promises) => wrongAfterLoss(t, place, promises.join('')),
  };
}

async function wrongAfterLoss(t: Test, place: Place, sent: string): Promise<string[]> {
  const promised = [...sent.matchAll(/HTTP\/1\.1 202[^{]*\{"run_id":"([^"]+)"/g)].map(([, id = '']) => id);
  const published = [...sent.matchAll(/"run_id":"([^"]+)"[^}]*"status":"succeeded"/g)].map(
    ([, id = '']) => id,
  );
  const site = path.join(place.root, 'public/p1');
  const wrong: string[] = [];
  if (published.length > 0) wrong.push(...(await differing(site)));
  const daemon = await launchApi(t, place, ['serve']);
  for (const id of [...promised, await accepted(daemon.url, 'three')]) {
    const { status } = await untilFinished(daemon.url, id);
    if (status !== 'succeeded') wrong.push(`${id} is ${status}`);
  }
  await daemon.kill('SIGTERM');
  wrong.push(...(await differing(site)));
  const trail = path.join(place.root, 'audit');
  const { problems } = await verifyTrail(trail);
  wrong.push(...problems.map(({ message }) => message));
  const recorded = new Set<string>();
  for await (const { act, run_id: id } of newestFirst(trail, null))
    if (act === 'upload') recorded.add(id ?? '');
  return [...wrong, ...promised.filter((id) => !recorded.has(id)).map((id) => `${id} has no record`)];
}

async function differing(site: string): Promise<string[]> {
  const reports = await verify(await localStorage(site), { concurrency: 8 });
  const files = reports.flatMap((report) => report.differing);
  return [...(reports.length === 0 ? ['nothing is published'] : []), ...files.map(({ path: name }) => name)];
}

async function accepted(url: string, name: string): Promise<string> {
  const answer = await upload(url, 'p1', bundle(name, 6000));
  const { run_id: id } = (await answer.json()) as RunRecord;
  if (answer.status !== 202) throw new Error(`${name} was answered with ${answer.status}`);
  return id;
}

async function untilFinished(url: string, id: string): Promise<RunRecord> {
  for (;;) {
    const answer = await fetch(`${url}runs/${id}?wait=30`);
    if (answer.status !== 200)
      return { run_id: id, status: `missing: ${answer.status}` } as unknown as RunRecord;
    const record = (await answer.json()) as RunRecord;
    if (record.finished_at !== null) return record;
  }
}
