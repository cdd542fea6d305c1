import { execFile } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { firstLineOf } from './foreign-s3.ts';
import { placeOf, rsaKey, type StartSftp } from './foreign-sftp.ts';
import { newerDebian } from './newer-debian.ts';
import { startServer } from './server-process.ts';

const run = promisify(execFile);

/** ProFTPD with its `mod_sftp`. */
export const startProftpd: StartSftp = async (t) => {
  const { through } = await newerDebian();
  const place = await placeOf(t, 'proftpd');
  const before = through(place.directory);
  const port = await freePort();
  const { username } = userInfo();
  // It supports only public keys in RFC 4716 format, with a separate file for each user.
  const key = await rsaKey(place.at('client_rsa'));
  const { stdout } = await run('ssh-keygen', ['-e', '-f', `${key}.pub`]);
  mkdirSync(place.at('keys'));
  writeFileSync(place.at(`keys/${username}`), stdout);
  await run('ssh-keygen', [
    '-q',
    '-t',
    'rsa',
    '-b',
    '2048',
    '-m',
    'PEM',
    '-N',
    '',
    '-f',
    place.at('host_rsa'),
  ]);
  writeFileSync(place.at('proftpd.conf'), configuration(place.directory, port));
  await startServer(t, [...before, 'proftpd', '-n', '-q', '-c', place.at('proftpd.conf')], {
    port,
    directory: place.directory,
  });
  const [, version = ''] =
    /(\d+\.\d+\.\d+)/.exec(await firstLineOf([...before, 'proftpd', '--version'])) ?? [];
  const { root, knownHostsFile } = place;
  return {
    version,
    ...{ host: '127.0.0.1', port, user: username, root, seenAs: root, clientKeyFile: key, knownHostsFile },
    // It makes targets of links absolute, so publishing releases is rejected.
    lacks: [
      'a link is created, read, replaced and removed, and its target stays',
      'a link replaces only a link',
      'shows readers a complete target while a link is replaced',
    ],
    maxRequests: 64,
    strangerKeyFile: place.strangerKeyFile,
  };
};

function configuration(directory: string, port: number): string {
  return `ModulePath /usr/lib/proftpd
LoadModule mod_xfer.c
LoadModule mod_sftp.c
ServerType standalone
DefaultAddress 127.0.0.1
Port ${port}
UseIPv6 off
User root
Group root
RootLogin on
UseFtpUsers off
RequireValidShell off
AuthPAM off
UseReverseDNS off
PidFile ${directory}/proftpd.pid
ScoreboardFile ${directory}/scoreboard
SystemLog ${directory}/system.log
WtmpLog off
TransferLog none
AllowOverwrite on
MaxInstances 60
<Limit ALL>
  AllowAll
</Limit>
SFTPEngine on
SFTPLog ${directory}/sftp.log
SFTPHostKey ${directory}/host_rsa
SFTPAuthorizedUserKeys file:${directory}/keys/%u
SFTPAuthMethods publickey
`;
}
