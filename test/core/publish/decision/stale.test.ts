import t from 'tap';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import { isOlderThanPublished, refuseOlder } from '../../../../src/core/publish/decision/refusals.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import {
  bundleOf,
  contextWith,
  destinationOf,
  newWorld,
  otherOwner,
  owner,
  snapshot,
  testClock,
} from '../../../faults/world.ts';
import { bundle as made } from '../../../support/decisions.ts';
import { instant } from '../../../support/instant.ts';

interface Upload {
  created: string;
  text: string;
  path?: string;
  as?: typeof owner;
  stale?: DestinationConfig['stale'];
  force?: boolean;
  dryRun?: boolean;
}

async function upload(storage: Storage, one: Upload): Promise<ActionResult> {
  const { path = 'site', as = owner, stale = 'refuse', force = false, dryRun = false } = one;
  const bundle = { ...bundleOf({ [`${as.pipelineId}.txt`]: one.text }, path), created: instant(one.created) };
  const destination: DestinationConfig = { ...destinationOf('additive'), mapping: 'fixed', stale };
  const publication = { bundle, owner: as, destination, destinationPath: '.' };
  return publishBundle(contextWith(testClock()), storage, publication, { dryRun, force });
}

const published = async (storage: Storage): Promise<string | undefined> =>
  (await snapshot(storage)).get('maps.txt');

for (const kind of ['memory files', 'memory objects', 'local'] as const)
  t.test(`${kind}: an older upload is rejected, by the last digit, with both times`, async (t) => {
    const storage = await newWorld(kind, t).open();
    const newer = '2026-11-20T00:00:00.1234567892Z';
    const older = '2026-11-20T00:00:00.1234567891Z';
    await upload(storage, { created: newer, text: 'new', path: 'b2' });
    const before = await snapshot(storage);
    for (const dryRun of [true, false]) {
      const refused = await upload(storage, { created: older, text: 'old', path: 'b1', dryRun });
      t.match(refused, {
        action: 'error',
        outputsWritten: 0,
        error: {
          code: 'stale_bundle',
          message: `the destination root: "b1", created ${older}, is older than "b2", created ${newer}, which is published there`,
          hint: /stale: publish/,
          retryable: false,
        },
      });
    }
    t.same(await snapshot(storage), before, 'nothing was changed');

    t.equal(
      (await upload(storage, { created: newer, text: 'same', path: 'b2' })).error,
      null,
      'equal is not older',
    );
    t.equal(await published(storage), 'same');
    const same = await upload(storage, { created: older, text: 'same', path: 'b2' });
    t.match(same, { action: 'skip_same', error: null }, 'a plan without changes is not rejected');
    const others = await upload(storage, { created: older, text: 'theirs', as: otherOwner });
    t.equal(others.error, null, 'another owner has its own order');

    t.equal((await upload(storage, { created: older, text: 'old', stale: 'publish' })).error, null);
    t.equal(await published(storage), 'old', 'stale: publish publishes older bundles');
    await upload(storage, { created: newer, text: 'new' });
    t.match(await upload(storage, { created: older, text: 'forced', force: true }), {
      action: 'upsert_additive',
      error: null,
    });
    t.equal(await published(storage), 'forced', 'so does force, which deletes nothing here');
    t.equal((await snapshot(storage)).get('other.txt'), 'theirs');
  });

t.test('a refusal names the path, and a plan without changes is not rejected', async (t) => {
  const published = { ...made, owner, created: instant('2026-11-21T00:00:00Z') };
  const plan = { action: 'publish_new', bundle: made, destinationPath: 's/42' } as const;
  t.throws(() => refuseOlder(plan, published, true), {
    code: 'stale_bundle',
    message: /^"s\/42": "bundle", created /,
  });
  t.throws(() => refuseOlder({ ...plan, destinationPath: '.' }, published, true), {
    message: /^the destination root: /,
  });
  t.doesNotThrow(() => refuseOlder({ ...plan, action: 'fail_unmanaged' }, published, true));
  t.doesNotThrow(() => refuseOlder(plan, { ...published, created: made.created }, true));
  t.doesNotThrow(() => refuseOlder(plan, null, true));
});

t.test('a bundle is overtaken by a newer one, and by another of the same age', async (t) => {
  const publishedAs = (path: string, created: string): Parameters<typeof isOlderThanPublished>[1] => ({
    ...{ owner, source: { ...made.source, path }, created: instant(created) },
  });
  const [before, same, after] = ['19T23:59:59Z', '20T00:00:00Z', '20T00:00:01Z'];
  const cases: [path: string, created: string | undefined, overtaken: boolean][] = [
    ['bundle', before, false],
    ['bundle', same, false],
    ['bundle', after, true],
    ['other', before, false],
    ['other', same, true],
    ['other', after, true],
  ];
  for (const [path, created, overtaken] of cases)
    t.equal(
      isOlderThanPublished(made, publishedAs(path, `2026-11-${created}`)),
      overtaken,
      `${path}, ${created}`,
    );
  t.equal(isOlderThanPublished(made, null), false);
});
