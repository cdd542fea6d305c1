import t from 'tap';
import { startRadosgw } from '../services/radosgw.ts';
import { startSshd } from '../services/sshd.ts';
import { isExhaustive, share } from '../support/sampling.ts';
import { releaseScenarios, walkReleases } from './release-walk.ts';
import { s3Worlds, sftpWorlds } from './server-worlds.ts';

/** What is done with releases, with every fault at every operation, on OpenSSH and on radosgw. */
const radosgw = await startRadosgw(t);
const servers = {
  SFTP: await sftpWorlds(t, await startSshd(t)),
  S3: await s3Worlds(t, radosgw, { bucket: await radosgw.newBucket() }),
};

for (const [name, newWorld] of Object.entries(servers)) {
  let [walked, all] = [0, 0];
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
