import t from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { silentLog } from '../../src/core/log.ts';
import { listedKey as key } from '../../src/core/storage/key.ts';
import { s3Storage } from '../../src/core/storage/s3/driver.ts';
import { within } from '../../src/core/storage/wrappers/within.ts';
import { locationOf, secretsOf, startRadosgw } from '../services/radosgw.ts';
import { frozenScenarios, walkFrozen } from './frozen.ts';
import type { WorldFactory } from './walk.ts';

/** A publisher that is stopped past its lease at each of its storage operations, on a real server. */

const server = await startRadosgw(t);
const bucket = await server.newBucket();
let worlds = 0;

for (const scenario of frozenScenarios)
  t.test(`S3: frozen in ${scenario.name}`, async (t) => {
    const options = { clock: systemClock, log: silentLog, secrets: secretsOf(server.user) };
    const whole = await s3Storage(locationOf(server.endpoint, bucket), options);
    t.teardown(() => whole.close());
    const newWorld: WorldFactory = () => {
      worlds += 1;
      const directory = key(`world-${worlds}`);
      return { name: 's3', open: async () => within(whole, directory) };
    };
    t.ok((await walkFrozen(t, newWorld, scenario, { drawn: 4, midway: 60, concurrency: 6 })) > 7);
  });
