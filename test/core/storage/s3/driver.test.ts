import t from 'tap';
import { systemClock } from '../../../../src/core/clock.ts';
import { silentLog } from '../../../../src/core/log.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { s3Storage } from '../../../../src/core/storage/s3/driver.ts';
import { within } from '../../../../src/core/storage/wrappers/within.ts';
import { storageContract } from '../../../contract/storage.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';

const server = await startRadosgw(t);
const bucket = await server.newBucket();
const retry = { retries: 5, baseMs: 20, capMs: 20 };
const options = { clock: systemClock, log: silentLog, secrets: secretsOf(server.user), retry };
let worlds = 0;

t.test('S3', (t) =>
  storageContract(t, async () => {
    worlds += 1;
    const location = locationOf(server.endpoint, bucket, `world ${worlds}/`);
    return { open: async () => s3Storage(location, { ...options, partBytes: 5 << 20, pageSize: 700 }) };
  }),
);

t.test('S3, a whole bucket, seen through a sub-directory', (t) =>
  storageContract(t, async () => {
    const location = locationOf(server.endpoint, await server.newBucket());
    return { open: async () => within(await s3Storage(location, options), key('deep/inside')) };
  }),
);
