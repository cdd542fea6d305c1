import t, { type Test } from 'tap';
import { systemClock } from '../../src/core/lib/clock.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { bytesBody } from '../../src/core/storage/body.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import { s3Storage } from '../../src/core/storage/s3/s3-storage.ts';
import { storageContract } from '../contract/storage.ts';
import type { ForeignS3 } from '../services/foreign/foreign-s3.ts';
import { startMoto } from '../services/foreign/moto.ts';
import { startNewerRadosgw } from '../services/foreign/newer-radosgw.ts';
import { startS3rver } from '../services/foreign/s3rver.ts';
import { startSwift } from '../services/foreign/swift.ts';
import { locationOf, secretsOf } from '../services/radosgw.ts';
import { recordMatrix } from '../support/matrix.ts';
import { cells, publicationRefused, publishThere, startAll } from './foreign-servers.ts';

/** S3 servers of other projects: their features, the detection of those features, and publishing. */

let prefixes = 0;

const made = startAll(t, 's3-servers', {
  'Ceph radosgw': startNewerRadosgw,
  'OpenStack Swift (s3api)': startSwift,
  moto: startMoto,
  s3rver: startS3rver,
});

for (const name of ['Ceph radosgw', 'OpenStack Swift (s3api)', 'moto'] as const)
  t.test(name, async (t) => {
    const server = await made[name]();
    const at = `backend: s3, bucket: ${server.bucket}, prefix: live/, endpoint: "${server.endpoint}", access_key_id_env: KEY, secret_access_key_env: SECRET`;
    const env = { KEY: server.user.accessKeyId, SECRET: server.user.secretAccessKey };
    const found = await publishThere(t, {
      settings: at,
      env,
      stranger: { settings: at, env: { ...env, SECRET: 'not-the-secret-0123456789' } },
    });
    await t.test('the storage contract', async (t) => contract(t, name, server));
    recordMatrix(t, 's3-servers', {
      subject: name,
      version: server.version,
      found: cells(t, found, server.lacks ?? []),
    });
  });

async function contract(t: Test, name: string, server: ForeignS3): Promise<void> {
  const options = { clock: systemClock, log: silentLog, secrets: secretsOf(server.user), pageSize: 90 };
  await storageContract(
    t,
    async () => {
      prefixes += 1;
      const location = locationOf(server.endpoint, server.bucket, `contract-${prefixes}/`);
      return { open: async () => s3Storage(location, options), page: 90 };
    },
    { variantOf: name, lacks: server.lacks ?? [] },
  );
}

t.test('rejects s3rver, which fails to list a page of several keys, and publishes nothing', async (t) => {
  const server = await made.s3rver();
  const { endpoint, bucket, user } = server;
  const settings = `backend: s3, bucket: ${bucket}, prefix: live/, endpoint: "${endpoint}", access_key_id_env: KEY, secret_access_key_env: SECRET`;
  const env = { KEY: user.accessKeyId, SECRET: user.secretAccessKey };
  const secrets = secretsOf(user);
  const storage = await s3Storage(locationOf(endpoint, bucket, 'live/'), {
    clock: systemClock,
    log: silentLog,
    secrets,
  });
  for (const name of ['a', 'b']) await storage.write(listedKey(name), bytesBody(name), { mode: 'replace' });
  const { status, said } = await publicationRefused(t, { settings, env });
  t.equal(status, 1);
  t.match(said, /InternalError, status 500/, "the server's response is reported");
  const left: string[] = [];
  for (const name of ['a', 'b', 'readme.txt', 'manifest.json', '.publisher.json'])
    if ((await storage.stat(listedKey(name))) !== undefined) left.push(name);
  t.same(left, ['a', 'b'], 'existing files are unchanged');
  recordMatrix(t, 's3-servers', {
    subject: 's3rver',
    version: server.version,
    found: { 'publish, verify, prune': t.passing() ? 'refused' : 'no' },
  });
});
