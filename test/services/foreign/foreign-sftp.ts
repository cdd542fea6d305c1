import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { makeKeys, type SftpServer } from '../sshd.ts';
import { ownDirectory } from './server-process.ts';

/** An SFTP server of another project that serves a local directory. */
export interface ForeignSftp extends Pick<
  SftpServer,
  'host' | 'port' | 'user' | 'clientKeyFile' | 'knownHostsFile'
> {
  version: string;
  /** A key that it does not know. */
  strangerKeyFile: string;
  /** Scenarios of the storage contract that it does not pass. */
  lacks: readonly string[];
  /** The maximum number of concurrent requests. */
  maxRequests: number;
  /** The local path of the directory, which is initially empty. */
  root: string;
  /** The path of the same directory for clients. */
  seenAs: string;
}

export type StartSftp = (t: Pick<Test, 'teardown'>) => Promise<ForeignSftp>;

export interface Keys extends Awaited<ReturnType<typeof makeKeys>> {
  directory: string;
  authorizedKeysFile: string;
  strangerKeyFile: string;
  at: (name: string) => string;
}

/** A directory for a server, with keys of its only client. */
export async function placeOf(t: Pick<Test, 'teardown'>, name: string): Promise<Keys> {
  const directory = ownDirectory(t, name);
  const keys = await makeKeys(directory);
  const at = (name: string): string => path.join(directory, name);
  const strangerKeyFile = await rsaKey(at('stranger_rsa'));
  return { ...keys, directory, authorizedKeysFile: at('authorized_keys'), strangerKeyFile, at };
}

/** A client key of a kind that servers support without further packages. */
export async function rsaKey(file: string): Promise<string> {
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'rsa', '-b', '2048', '-N', '', '-f', file]);
  return file;
}
