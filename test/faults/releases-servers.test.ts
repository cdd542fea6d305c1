import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { silentLog } from '../../src/core/log.ts';
import { listedKey as key } from '../../src/core/storage/key.ts';
import { s3Storage } from '../../src/core/storage/s3/driver.ts';
import { sftpStorage } from '../../src/core/storage/sftp/driver.ts';
import { within } from '../../src/core/storage/wrappers/within.ts';
import { locationOf, secretsOf, startRadosgw } from '../services/radosgw.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../services/sshd.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { isExhaustive, share } from '../support/sampling.ts';
import { releaseScenarios, walkReleases, type OpenWorld } from './release-walk.ts';

/** What is done with releases, with every fault at every operation, on OpenSSH and on radosgw. */
const place = mkdtempSync(path.join(memoryDirectory(), 'waybill-release-worlds-'));
t.teardown(() => rmSync(place, { recursive: true, force: true }));
const context = { clock: systemClock, log: silentLog };
const overSftp = await sftpStorage(sftpLocationOf(await startSshd(t), place), {
  ...{ ...context, secrets: noSecrets },
});
t.teardown(() => overSftp.close());
const radosgw = await startRadosgw(t);
const inBucket = await s3Storage(locationOf(radosgw.endpoint, await radosgw.newBucket()), {
  ...{ ...context, secrets: secretsOf(radosgw.user) },
});
t.teardown(() => inBucket.close());
let worlds = 0;

for (const [name, storage] of [
  ['SFTP', overSftp],
  ['S3', inBucket],
] as const) {
  let [walked, all] = [0, 0];
  const newWorld: OpenWorld = async () => {
    worlds += 1;
    const directory = key(`world-${worlds}`);
    return async () => within(storage, directory);
  };
  for (const scenario of releaseScenarios)
    t.test(`${name}: ${scenario.name}`, async (t) => {
      const done = await walkReleases(t, newWorld, scenario, { drawn: 6, concurrency: 4 });
      walked += done.points;
      all += done.all;
    });

  t.test(`the walk over ${name}`, async (t) => {
    t.ok(all > 150, `${all} fault points`);
    t.ok(isExhaustive ? walked === all : walked > 40, `${walked} of them walked`);
    t.comment(`told: ${share(walked, all)} fault points walked (releases, ${name})`);
  });
}
