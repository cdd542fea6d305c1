import path from 'node:path';
import t from 'tap';
import { systemClock } from '../../src/core/clock.ts';
import { silentLog } from '../../src/core/log.ts';
import { listedKey as key } from '../../src/core/storage/key.ts';
import { localStorage } from '../../src/core/storage/local/driver.ts';
import { sftpStorage } from '../../src/core/storage/sftp/driver.ts';
import { within } from '../../src/core/storage/wrappers/within.ts';
import { startPlainSftpServer } from '../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../services/sshd.ts';
import { frozenScenarios, walkFrozen } from './frozen.ts';
import type { WorldFactory } from './walk.ts';

/** A publisher that is stopped past its lease at each of its storage operations, on real servers. */
const servers = [
  { name: 'OpenSSH', server: await startSshd(t) },
  { name: 'a server without extensions', server: await startPlainSftpServer(t) },
];
let worlds = 0;

for (const { name, server } of servers)
  for (const scenario of frozenScenarios)
    t.test(`SFTP on ${name}: frozen in ${scenario.name}`, async (t) => {
      const location = sftpLocationOf(server, path.join(server.root, 'frozen'));
      const whole = await sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
      t.teardown(() => whole.close());
      const newWorld: WorldFactory = () => {
        worlds += 1;
        const directory = key(`world-${worlds}`);
        return {
          name: 'sftp',
          open: async () => within(whole, directory),
          openDirectly: () => localStorage(path.join(server.root, 'frozen', directory)),
        };
      };
      t.ok((await walkFrozen(t, newWorld, scenario, { drawn: 3, midway: 40, concurrency: 6 })) > 5);
    });
