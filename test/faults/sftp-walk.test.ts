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
import { walkUndo } from './undo-walk.ts';
import { scenarios, walkScenario, type WorldFactory } from './walk.ts';
import { isExhaustive, sampleOf, share } from '../support/sampling.ts';

/**
 * Every fault at every storage operation of every action, on a real server; and one kind of fault at each of
 * them where a name is replaced in several requests. A world is a directory of one connection: opening is no
 * storage operation.
 */
const servers = [
  { name: 'OpenSSH', server: await startSshd(t), sample: false, atLeast: 300 },
  { name: 'a server without extensions', server: await startPlainSftpServer(t), sample: true, atLeast: 90 },
];
let worlds = 0;
const undone = sampleOf(scenarios, 3, 'undone');

for (const { name, server, sample, atLeast } of servers) {
  let [walked, all] = [0, 0];
  for (const scenario of scenarios)
    t.test(`SFTP on ${name}: ${scenario.action}`, async (t) => {
      const location = sftpLocationOf(server, path.join(server.root, 'walk'));
      const whole = await sftpStorage(location, { clock: systemClock, log: silentLog, secrets: noSecrets });
      t.teardown(() => whole.close());
      const newWorld: WorldFactory = () => {
        worlds += 1;
        const directory = key(`world-${worlds}`);
        return {
          name: 'sftp',
          open: async () => within(whole, directory),
          openDirectly: () => localStorage(path.join(server.root, 'walk', directory)),
        };
      };
      const settings = { everyCode: false, sample, concurrency: 6, drawn: 6 };
      const done = await walkScenario(t, newWorld, scenario, settings);
      walked += done.points;
      all += done.all;
      // Killed while it is undone: the protocol is walked in memory, the storage's own calls here.
      if (undone.includes(scenario))
        await walkUndo(t, newWorld, scenario, { atMost: 8, drawn: 2, concurrency: 6 });
    });

  t.test(`the walk on ${name}`, async (t) => {
    t.ok(all > atLeast, `${all} fault points`);
    t.ok(isExhaustive ? walked === all : walked > 30, `${walked} of them walked`);
    t.comment(`told: ${share(walked, all)} fault points walked (SFTP, on ${name})`);
  });
}
