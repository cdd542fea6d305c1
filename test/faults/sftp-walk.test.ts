import t from 'tap';
import { startPlainSftpServer } from '../services/plain-sftp-server.ts';
import { startSshd } from '../services/sshd.ts';
import { isExhaustive, sampleOf, share } from '../support/sampling.ts';
import { sftpWorlds } from './server-worlds.ts';
import { walkUndo } from './undo-walk.ts';
import { scenarios, walkScenario } from './walk.ts';

/**
 * Every fault at every storage operation of every action, on a real server; and one kind of fault at each of
 * them where a name is replaced in several requests.
 */
const servers = [
  { name: 'OpenSSH', server: await startSshd(t), sample: false, atLeast: 300 },
  { name: 'a server without extensions', server: await startPlainSftpServer(t), sample: true, atLeast: 90 },
];
const undone = sampleOf(scenarios, 3, 'undone');

for (const { name, server, sample, atLeast } of servers) {
  let [walked, all] = [0, 0];
  for (const scenario of scenarios)
    t.test(`SFTP on ${name}: ${scenario.action}`, async (t) => {
      const newWorld = await sftpWorlds(t, server);
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
