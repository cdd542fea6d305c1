import t from 'tap';
import { systemClock } from '../../../../src/core/lib/clock.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { s3Storage } from '../../../../src/core/storage/s3/s3-storage.ts';
import { bundlePath } from '../../../faults/world.ts';
import { locationOf, secretsOf, startRadosgw } from '../../../services/radosgw.ts';
import { startS3Proxy } from '../../../services/s3-proxy.ts';
import { incrementalSuite } from './suite.ts';

const server = await startRadosgw(t);
const proxy = await startS3Proxy(t, server);

incrementalSuite(t, 'S3', async (t) => {
  const bucket = await server.newBucket();
  const secrets = secretsOf(server.user);
  const location = locationOf(proxy.endpoint, bucket);
  const storage = await s3Storage(location, { clock: systemClock, log: silentLog, secrets });
  t.teardown(() => storage.close());
  const place = `/${bucket}/${bundlePath}/`;
  /** The keys of all writes, except for temporary copies of an attempt and probes. */
  const written = (): string[] =>
    proxy.seen
      .filter(({ method }) => method === 'PUT')
      .map(({ url }) => decodeURIComponent(url.split('?')[0] ?? ''))
      .filter((url) => url.startsWith(place) && !url.includes('/.publisher.tmp/'))
      .map((url) => url.slice(place.length));
  return {
    storage,
    writes: () => written().length,
    async writtenMarks() {
      const counts = new Map<string, string>();
      for (const name of written())
        if (!name.startsWith('.publisher')) counts.set(name, String(Number(counts.get(name) ?? 0) + 1));
      return counts;
    },
  };
});
