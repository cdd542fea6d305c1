import { spawnSync } from 'node:child_process';
import { startRadosgw } from '../test/services/radosgw.ts';
import { remote, type RemotePlace } from './remote.ts';

/** Publishes from a local directory to S3, compared with rclone on the same server. */
export async function s3(): Promise<boolean> {
  return onS3((place) => remote(place, { large: { least: 1.3 }, small: 1.3, nothing: 5 }));
}

/** Starts a Ceph object gateway on this machine, and runs `work` with a new bucket. */
export async function onS3(work: (place: RemotePlace) => boolean): Promise<boolean> {
  const releases: (() => unknown)[] = [];
  try {
    const server = await startRadosgw({
      teardown: (release) => void releases.push(release),
    });
    const { endpoint, user } = server;
    const bucket = await server.newBucket();
    // These settings are for other servers. rclone does not accept them with plain HTTP.
    delete process.env['AWS_CA_BUNDLE'];
    Object.assign(process.env, {
      BENCH_KEY: user.accessKeyId,
      BENCH_SECRET: user.secretAccessKey,
      RCLONE_CONFIG_BENCH_TYPE: 's3',
      RCLONE_CONFIG_BENCH_PROVIDER: 'Ceph',
      RCLONE_CONFIG_BENCH_ENDPOINT: endpoint,
      RCLONE_CONFIG_BENCH_ACCESS_KEY_ID: user.accessKeyId,
      RCLONE_CONFIG_BENCH_SECRET_ACCESS_KEY: user.secretAccessKey,
    });
    return work({
      name: 'S3',
      destination: (directory) =>
        `backend: s3, endpoint: "${endpoint}", region: us-east-1, bucket: ${bucket}, prefix: ${directory}/, access_key_id_env: BENCH_KEY, secret_access_key_env: BENCH_SECRET`,
      rclone: (directory) => `bench:${bucket}/${directory}`,
      rclones: [{ flags: [] }, { flags: ['--transfers', '16', '--checkers', '16'] }],
      clear: (directory) => {
        spawnSync(
          'rclone',
          ['delete', `bench:${bucket}/${directory}`, '--transfers', '16', '--checkers', '16'],
          {
            stdio: 'ignore',
          },
        );
      },
    });
  } finally {
    for (const release of releases.reverse()) await release();
  }
}
