import t from 'tap';
import {
  decisionRecord,
  Decisions,
  refuseOtherDecision,
  targetLabel,
} from '../../../src/core/publish/plan-file.ts';
import { publishBundle } from '../../../src/core/publish/publish-bundle.ts';
import type { Decided } from '../../../src/core/publish/publish-request.ts';
import type { ActionResult } from '../../../src/core/publish/results/result.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import {
  bundleOf,
  bundlePath,
  contextWith,
  destinationOf,
  otherOwner,
  owner,
  publishTo,
  snapshot,
  testClock,
} from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

function publish(
  root: Storage,
  dryRun: boolean,
  onDecided: (decided: Decided) => void,
): Promise<ActionResult> {
  const publication = {
    bundle: bundleOf({ 'a.txt': 'new' }),
    owner,
    destination: destinationOf('additive'),
    destinationPath: bundlePath,
  };
  return publishBundle(contextWith(testClock()), root, publication, { dryRun, force: false, onDecided });
}

for (const flavour of ['files', 'objects'] as const)
  t.test(
    `${flavour}: a publication after the check makes the plan stale, and nothing is half done`,
    async (t) => {
      const root = memoryStorage({ flavour });
      await publishTo(root, { files: { 'a.txt': 'old' } });
      const decisions = new Decisions();
      await publish(root, true, (decided) => decisions.add(decisionRecord(decided)));
      const written = new Map(decisions.all().map((record) => [targetLabel(record), record]));
      const check = (decided: Decided): void => refuseOtherDecision(written, decisionRecord(decided));
      let isQuick = true;
      const raced: Storage = {
        ...root,
        // The first write of the attempt: the plan was already validated without the lease.
        async write(key, body, options) {
          if (isQuick) {
            isQuick = false;
            await publishTo(root, { files: { 'theirs.txt': 't' }, as: otherOwner });
          }
          return root.write(key, body, options);
        },
      };
      const refused = await publish(raced, false, check);
      t.match(refused, {
        action: 'error',
        error: {
          code: 'plan_stale',
          message: /state of the destination changed while the plan was being applied/,
        },
      });
      const files = await snapshot(root);
      t.equal(files.get('bundle/a.txt'), 'old');
      t.equal(files.get('bundle/theirs.txt'), 't');
      t.same(
        [...files.keys()].sort(),
        ['bundle/.publisher.json', 'bundle/a.txt', 'bundle/theirs.txt'],
        'no lock, no staging',
      );
      t.match(await publishTo(root, { files: { 'a.txt': 'new' } }), { action: 'upsert_additive' });
    },
  );
