import { copyFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { freePort } from '../free-port.ts';
import { placeOf, rsaKey, type StartSftp } from './foreign-sftp.ts';
import { newerDebian } from './newer-debian.ts';
import { startServer } from './server-process.ts';

const source = 'test/services/foreign/MinaServer.java';
const jars = ['sshd-common', 'sshd-core', 'sshd-sftp', 'slf4j-api', 'slf4j-nop', 'jcl-over-slf4j'];

/** Apache MINA SSHD with its SFTP subsystem, in a program that only starts it. */
export const startMinaSshd: StartSftp = async (t) => {
  const { through, root } = await newerDebian();
  const place = await placeOf(t, 'mina');
  const before = through(place.directory);
  const port = await freePort();
  copyFileSync(source, place.at('MinaServer.java'));
  const key = await rsaKey(place.at('client_rsa'));
  const classPath = jars.map((name) => `/usr/share/java/${name}.jar`).join(':');
  const args = [String(port), place.root, `${key}.pub`, place.at('mina_key')];
  const java = [
    '/usr/lib/jvm/default-java/bin/java',
    '-Xshare:auto',
    '-XX:TieredStopAtLevel=1',
    '-cp',
    classPath,
  ];
  await startServer(t, [...before, ...java, place.at('MinaServer.java'), ...args], {
    port,
    directory: place.directory,
  });
  const [version = ''] = readdirSync(path.join(root, 'usr/share/java')).flatMap(
    (name) => /^sshd-core-(.*)\.jar$/.exec(name)?.[1] ?? [],
  );
  return {
    version,
    ...{ host: '127.0.0.1', port, user: 'publisher', root: place.root, seenAs: '/' },
    knownHostsFile: place.knownHostsFile,
    clientKeyFile: key,
    lacks: [],
    maxRequests: 64,
    strangerKeyFile: place.strangerKeyFile,
  };
};
