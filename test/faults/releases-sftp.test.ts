import t from 'tap';
import { startSshd } from '../services/sshd.ts';
import { walkReleasesOn } from './releases-on-server.ts';
import { sftpWorlds } from './server-worlds.ts';

/** On OpenSSH. */
walkReleasesOn('SFTP', await sftpWorlds(t, await startSshd(t)));
