import { memoryDirectory } from '../../support/memory-directory.ts';
import { startOwnRadosgw } from '../radosgw.ts';
import { firstLineOf, type StartS3 } from './foreign-s3.ts';
import { newerDebian } from './newer-debian.ts';

/** Ceph's gateway four years newer than the release in Debian 12. */
export const startNewerRadosgw: StartS3 = async (t) => {
  const { through } = await newerDebian();
  const within = memoryDirectory();
  const server = await startOwnRadosgw(t, within, through);
  const line = await firstLineOf([...through(within), 'radosgw', '--version']);
  const [, version = ''] = /version (\d+\.\d+)/.exec(line) ?? [];
  return {
    version,
    endpoint: server.endpoint,
    user: server.user,
    bucket: await server.newBucket(),
  };
};
