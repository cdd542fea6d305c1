import path from 'node:path';
import { ListMultipartUploadsCommand } from '@aws-sdk/client-s3';
import type { Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { Secrets } from '../../src/core/lib/secrets.ts';
import { type OpenStorage, storageOpener } from '../../src/core/storage/open-storage.ts';
import { secretsOf, startRadosgw } from '../services/radosgw.ts';
import { noSecrets, startSshd } from '../services/sshd.ts';

/** A kind of storage for the built program, which is killed while it changes the storage. */
export interface StoragePlace {
  name: string;
  /** The settings of a destination called `name`. `root` is the directory of the configuration. */
  settings: (name: string, root: string) => string;
  /** Environment for the program and the preloaded `kill-at-change.mjs`. `root` as above. */
  env: (root: string) => Record<string, string>;
  /** Opens the source and the destination in this process. */
  open: OpenStorage;
  secrets: Secrets;
  /** The number of counted changes that belong to the login and the first reads, and change nothing. */
  readsFirst: number;
  /** Leftovers that a listing of the storage does not show. */
  hidden: () => Promise<string[]>;
}

const opener = (secrets: Secrets): OpenStorage =>
  storageOpener({ clock: systemClock, log: silentLog, secrets });

export function localPlace(): StoragePlace {
  return {
    name: 'local',
    settings: (name) => `backend: local, path: ./${name}`,
    env: (root) => ({ KILL_BELOW: path.join(root, 'web') }),
    open: opener(noSecrets),
    secrets: noSecrets,
    readsFirst: 0,
    hidden: async () => [],
  };
}

export async function sftpPlace(t: Test): Promise<StoragePlace> {
  const { host, port, user, clientKeyFile, knownHostsFile } = await startSshd(t);
  const login = `host: ${host}, port: ${port}, user: ${user}, ssh_key_file: "${clientKeyFile}"`;
  return {
    name: 'SFTP',
    settings: (name, root) =>
      `backend: sftp, ${login}, known_hosts_file: "${knownHostsFile}", path: "${path.join(root, name)}"`,
    env: () => ({ KILL_PORT: String(port) }),
    open: opener(noSecrets),
    secrets: noSecrets,
    // Requests are encrypted. Fewer than those of a run without changes.
    readsFirst: 40,
    hidden: async () => [],
  };
}

export async function s3Place(t: Test): Promise<StoragePlace> {
  const server = await startRadosgw(t);
  const bucket = await server.newBucket();
  const keys = 'access_key_id_env: TEST_KEY, secret_access_key_env: TEST_SECRET';
  const secrets = secretsOf(server.user);
  return {
    name: 'S3',
    settings: (name, root) =>
      `backend: s3, endpoint: "${server.endpoint}", bucket: ${bucket}, prefix: ${path.basename(root)}-${name}, ${keys}`,
    env: () => ({
      ...{ TEST_KEY: server.user.accessKeyId, TEST_SECRET: server.user.secretAccessKey },
      KILL_PORT: String(server.port),
    }),
    open: opener(secrets),
    secrets,
    readsFirst: 0,
    hidden: async () => {
      const { Uploads } = await server.client().send(new ListMultipartUploadsCommand({ Bucket: bucket }));
      return (Uploads ?? []).map(({ Key }) => `the multipart upload of ${Key ?? ''}`);
    },
  };
}
