import path from 'node:path';
import t from 'tap';
import { silentLog } from '../../src/core/log.ts';
import { listedKey as key } from '../../src/core/storage/key.ts';
import { sftpStorage } from '../../src/core/storage/sftp.ts';
import { within } from '../../src/core/storage/within.ts';
import { startPlainSftpServer } from '../services/plain-sftp-server.ts';
import { noSecrets, sftpLocationOf, startSshd } from '../services/sshd.ts';
import { scenarios, walkScenario, type WorldFactory } from './walk.ts';

/**
 * Every fault at every storage operation of every action on OpenSSH, and those of a replacement where files are replaced in steps. A world is a
 * directory of one connection: opening is no storage operation.
 */
const servers = {
  OpenSSH: { server: await startSshd(t), actions: scenarios },
  'a server without extensions': {
    server: await startPlainSftpServer(t),
    actions: scenarios.filter(({ action }) => action === 'replace_catalog'),
  },
};
let worlds = 0;
let walked = 0;

for (const [name, { server, actions }] of Object.entries(servers))
  for (const scenario of actions)
    t.test(`${name}: ${scenario.action}`, async (t) => {
      const location = sftpLocationOf(server, path.join(server.root, 'walk'));
      const whole = await sftpStorage(location, { log: silentLog, secrets: noSecrets });
      t.teardown(() => whole.close());
      const newWorld: WorldFactory = () => {
        worlds += 1;
        const directory = key(`world-${worlds}`);
        return { name: 'sftp', open: async () => within(whole, directory) };
      };
      walked += await walkScenario(t, newWorld, scenario, { everyCode: false, concurrency: 6 });
    });

t.test('the walk', async (t) => {
  t.ok(walked > 300, `${walked} fault points walked`);
  t.comment(`told: ${walked} fault points walked (SFTP, on OpenSSH and without extensions)`);
});
