import t from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { frozenScenarios, walkFrozen } from './frozen.ts';
import { s3Worlds } from './server-worlds.ts';

/** A publisher that is stopped past its lease at each of its storage operations, on a real server. */

const server = await startRadosgw(t);
const bucket = await server.newBucket();

for (const scenario of frozenScenarios)
  t.test(`S3: frozen in ${scenario.name}`, async (t) => {
    const newWorld = await s3Worlds(t, server, { bucket });
    t.ok((await walkFrozen(t, newWorld, scenario, { drawn: 4, midway: 60, concurrency: 6 })) > 7);
  });
