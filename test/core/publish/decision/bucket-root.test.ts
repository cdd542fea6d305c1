import t from 'tap';
import { refuseBucketRoot } from '../../../../src/core/publish/decide-on-state.ts';
import type { DestinationLocation } from '../../../../src/core/storage/backends.ts';

const bucket: Extract<DestinationLocation, { backend: 's3' }> = {
  backend: 's3',
  ...{ bucket: 'maps', prefix: '', endpoint: null, region: null, pathStyle: false },
  ...{ credentials: null, allowBucketRoot: false },
};

t.test('a forced replacement empties a whole bucket only if that is allowed', async (t) => {
  const check = (clears: boolean, destinationPath: string, location: DestinationLocation) => (): void =>
    refuseBucketRoot({ clears, destinationPath }, location);
  t.throws(check(true, '.', bucket), {
    code: 'bucket_root_protected',
    message: /^s3:\/\/maps\/: .*the bucket/,
    hint: /allow_bucket_root/,
  });
  t.doesNotThrow(check(false, '.', bucket), 'it deletes nothing');
  t.doesNotThrow(check(true, 'session', bucket), 'only a part of the bucket');
  t.doesNotThrow(check(true, '.', { ...bucket, prefix: 'live/' }));
  t.doesNotThrow(check(true, '.', { ...bucket, allowBucketRoot: true }));
  t.doesNotThrow(check(true, '.', { backend: 'local', path: '/srv' }));
});
