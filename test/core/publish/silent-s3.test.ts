import { randomBytes } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { defaultRetryPolicy } from '../../../src/core/lib/retry.ts';
import { BucketClient } from '../../../src/core/storage/s3/s3-client.ts';
import { S3Storage } from '../../../src/core/storage/s3/s3-storage.ts';
import { withRetry } from '../../../src/core/storage/wrappers/with-retry.ts';
import { publishTo, testClock } from '../../faults/world.ts';
import { locationOf, secretsOf, startRadosgw } from '../../services/radosgw.ts';

/**
 * An S3 server goes silent at each request of a publication in turn. The attempt must end after a few minutes
 * of silence: a run that is retried ends at most one attempt after `retry_for`. See docs/design/waits.md.
 */

/** Two minutes for the interrupted call, and one for a renewal of the lease that begins during it. */
const maxSilentMinutes = 3;

const server = await startRadosgw(t);
const files = { 'index.html': 'page', 'large.bin': randomBytes(6 << 20).toString('hex') };

/** Publishes to a server that no longer answers from request number `silentFrom` on, counted from 1. */
async function publishUntilSilent(
  silentFrom: number,
): Promise<{ requests: number; minutes: number; error: unknown }> {
  const clock = testClock();
  const location = locationOf(server.endpoint, await server.newBucket(), 'p/');
  const client = new BucketClient({ location, clock, credentials: server.user });
  let [requests, minutes] = [0, 0];
  let minute: Promise<void> | undefined;
  /** Concurrent requests are silent during the same minute. */
  const silence = async (): Promise<never> => {
    minute ??= setImmediate().then(async () => {
      minutes += 1;
      minute = undefined;
      await clock.sleep(60_000);
    });
    await minute;
    throw new WaybillError('storage_transient', 'no answer in time');
  };
  const silenced = new Proxy(client, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name);
      if (typeof member !== 'function') return member;
      if (name === 'placeOf' || name === 'close') return member.bind(target) as unknown;
      return (...args: unknown[]): unknown =>
        (requests += 1) >= silentFrom ? silence() : member.apply(target, args);
    },
  });
  const outage = {};
  const options = { clock, log: silentLog, secrets: secretsOf(server.user), partBytes: 5 << 20, outage };
  const storage = withRetry(new S3Storage(silenced, 'p/', 'the bucket', options), {
    ...{ policy: defaultRetryPolicy, clock, outage },
  });
  const { error } = await publishTo(storage, { files }, clock);
  await storage.close();
  return { requests, minutes, error };
}

t.test('a publication to a silent server ends after a few minutes', async (t) => {
  const { requests, error } = await publishUntilSilent(Infinity);
  t.equal(error, null);
  const lasted: number[] = [];
  for (let silentFrom = 1; silentFrom <= requests; silentFrom += 1) {
    const { minutes, error } = await publishUntilSilent(silentFrom);
    if (error !== null) t.match(error, { code: /^(storage_transient|lease_lost|commit_unknown)$/ });
    lasted.push(minutes);
  }
  t.comment(`silent minutes: ${lasted.join(' ')}`);
  t.same(
    lasted.filter((minutes) => minutes > maxSilentMinutes),
    [],
  );
});
