import t from 'tap';
import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import { startRadosgw } from '../services/radosgw.ts';
import { isExhaustive, sampleOf, share } from '../support/sampling.ts';
import { s3Worlds } from './server-worlds.ts';
import { walkUndo } from './undo-walk.ts';
import { scenarios, walkScenario } from './walk.ts';

/**
 * Every fault at every storage operation of every action, on a real server; those of a replacement go in
 * parts of one byte.
 */

const server = await startRadosgw(t);
const bucket = await server.newBucket();
const undone = sampleOf(scenarios, 3, 'undone');
let [walked, all] = [0, 0];

for (const scenario of scenarios) {
  if (scenario.action.includes('trading places')) continue; // Object stores have no directories.
  const partBytes = scenario.action === 'replace_catalog' ? 1 : 1024;
  t.test(`S3: ${scenario.action}`, async (t) => {
    const newWorld = await s3Worlds(t, server, { bucket, partBytes });
    const done = await walkScenario(t, newWorld, scenario, { everyCode: false, concurrency: 6, drawn: 6 });
    walked += done.points;
    all += done.all;
    // Killed while it is undone: the protocol is walked in memory, the storage's own calls here.
    if (undone.includes(scenario))
      await walkUndo(t, newWorld, scenario, { atMost: 8, drawn: 2, concurrency: 6 });
  });
}

t.test('the walk', async (t) => {
  t.ok(all > 300, `${all} fault points`);
  t.ok(isExhaustive ? walked === all : walked > 30, `${walked} of them walked`);
  t.comment(`told: ${share(walked, all)} fault points walked (S3, on radosgw)`);
  const { Uploads } = await server.client().send(new ListMultipartUploadsCommand({ Bucket: bucket }));
  t.same(Uploads ?? [], [], 'no multipart upload is left');
});
