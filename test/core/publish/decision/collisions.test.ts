import t from 'tap';
import type { ClaimAbove } from '../../../../src/core/catalog/managed-paths.ts';
import { applyClaim, dependsOnClaims } from '../../../../src/core/publish/decision/collisions.ts';
import { otherOwner } from '../../../faults/world.ts';
import { planOf } from '../../../support/decisions.ts';

const claim: ClaimAbove = {
  catalogPath: 'above',
  files: { first: 'above/bundle/a', others: 0 },
  owner: otherOwner,
};

t.test('a catalog above matters to plans that delete files or call them unmanaged', async (t) => {
  t.equal(dependsOnClaims({ ...planOf('force_replace', 'state_invalid'), clears: true }), true);
  t.equal(dependsOnClaims(planOf('fail_unmanaged', 'content_unmanaged')), true);
  t.equal(dependsOnClaims(planOf('fail_unmanaged', 'path_unrecorded')), true);
  t.equal(dependsOnClaims(planOf('fail_unmanaged', 'path_of_other_owner')), false);
  t.equal(dependsOnClaims(planOf('publish_new', 'content_unmanaged')), false);
  t.equal(dependsOnClaims(planOf('skip_same', 'all_recorded')), false);
});

t.test('a refusal names the owner of the files, if the catalog above does', async (t) => {
  const plan = planOf('fail_unmanaged');
  const messageFor = (more: Partial<ClaimAbove>): string =>
    applyClaim(plan, { ...claim, ...more }).reason.message;
  const start = 'the content there is not free:';
  t.equal(messageFor({}), `${start} "above/bundle/a", which the catalog at "above" records for other/web`);
  t.equal(
    messageFor({ catalogPath: '.', files: { first: 'a', others: 2 }, owner: null }),
    `${start} "a" and 2 more, which the catalog at the destination root records`,
  );
  t.equal(applyClaim(plan, claim).reason.code, 'content_of_catalog_above');
  t.equal(applyClaim(plan, null), plan);
  t.equal(applyClaim(plan, { ...claim, files: null }), plan, 'the owner is unknown');
});

t.test('force deletes no files that a catalog above records, or may record', async (t) => {
  const plan = { ...planOf('force_replace'), clears: true };
  t.throws(() => applyClaim(plan, claim), { code: 'nested_managed_path', message: /"above\/bundle\/a"/ });
  t.throws(() => applyClaim(plan, { ...claim, files: null }), {
    code: 'nested_managed_path',
    message: /cannot be understood/,
    hint: /^repair/,
  });
  t.equal(applyClaim(plan, null), plan);
});
