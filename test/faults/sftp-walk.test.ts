import t from 'tap';
import { startPlainSftpServer } from '../services/plain-sftp-server.ts';
import { startSshd } from '../services/sshd.ts';
import { type Case, walkCases } from '../support/sampling.ts';
import { casesOnServer } from './server-cases.ts';
import { sftpWorlds } from './server-worlds.ts';
import { hasSteps, stepsOfFiles } from './steps.ts';

/** Faults and freezes on OpenSSH, and on a server that replaces a file in several requests. */
const servers = {
  OpenSSH: await startSshd(t),
  'a server without extensions': await startPlainSftpServer(t),
};

const cases: Case[] = [];
for (const [where, server] of Object.entries(servers))
  t.test(`SFTP on ${where}, without faults`, async (test) => {
    const newWorld = await sftpWorlds(t, server);
    const worlds = { where, newWorld, hasDirectories: true, hasReleases: where === 'OpenSSH' };
    cases.push(...(await casesOnServer(test, worlds)));
  });

t.test('after every fault or freeze, the next run repairs everything', async (t) => {
  const strata = await walkCases(t, cases, { what: 'fault points and freezes (SFTP)', concurrency: 6 });
  for (const where of Object.keys(servers)) hasSteps(t, strata, where, stepsOfFiles);
});
