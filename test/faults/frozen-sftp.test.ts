import t from 'tap';
import { startPlainSftpServer } from '../services/plain-sftp-server.ts';
import { startSshd } from '../services/sshd.ts';
import { frozenScenarios, walkFrozen } from './frozen.ts';
import { sftpWorlds } from './server-worlds.ts';

/** A publisher that is stopped past its lease at each of its storage operations, on real servers. */
const servers = [
  { name: 'OpenSSH', server: await startSshd(t) },
  { name: 'a server without extensions', server: await startPlainSftpServer(t) },
];

for (const { name, server } of servers)
  for (const scenario of frozenScenarios)
    t.test(`SFTP on ${name}: frozen in ${scenario.name}`, async (t) => {
      const newWorld = await sftpWorlds(t, server);
      t.ok((await walkFrozen(t, newWorld, scenario, { drawn: 3, midway: 40, concurrency: 6 })) > 5);
    });
