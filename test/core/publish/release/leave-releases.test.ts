import t from 'tap';
import type { SourceBundle } from '../../../../src/core/bundle/source-bundle.ts';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import type { Finding } from '../../../../src/core/finding.ts';
import type { Owner } from '../../../../src/core/identity.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { Decided, PublishRequest } from '../../../../src/core/publish/publish-request.ts';
import type { ActionResult } from '../../../../src/core/publish/results/result.ts';
import { isOfReleases, releaseKey } from '../../../../src/core/releases/release.ts';
import { ledgerKey } from '../../../../src/core/releases/store.ts';
import { rollBack } from '../../../../src/core/releases/switch.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { within } from '../../../../src/core/storage/wrappers/within.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';
import {
  bundleFor,
  filesOf,
  litterBelow,
  lookAtReleases,
  publishAsRelease,
  releaseIdFor,
  site,
  siteOf,
} from '../../../faults/release-world.ts';
import {
  bundleOf,
  contextWith,
  destinationOf,
  otherOwner,
  owner,
  put,
  snapshot,
  testClock,
} from '../../../faults/world.ts';

/** A bundle path that is published as releases, and of which the configuration says in place from now on. */

const flavours = ['files', 'objects'] as const;

interface Asked {
  bundle?: SourceBundle;
  as?: Owner;
  at?: string;
  destination?: Partial<DestinationConfig>;
  request?: Partial<PublishRequest>;
  selectAgain?: () => Promise<SourceBundle>;
}

interface Told extends ActionResult {
  warnings: Finding[];
}

async function inPlace(root: Storage, n: number, asked: Asked = {}): Promise<Told> {
  const { bundle = bundleFor(n), as = owner, at = site, destination, request, ...more } = asked;
  const warnings: Finding[] = [];
  const result = await publishBundle(
    contextWith(testClock()),
    root,
    {
      ...{ bundle, owner: as, destination: { ...destinationOf('replacement'), ...destination } },
      ...{ destinationPath: at, warn: (one) => warnings.push(one), ...more },
    },
    { dryRun: false, force: false, ...request },
  );
  return { ...result, warnings };
}

async function published(flavour: 'files' | 'objects', ...releases: number[]): Promise<Storage> {
  const root = memoryStorage({ flavour });
  for (const n of releases) await publishAsRelease(root, n);
  return root;
}

/** What lies at the bundle path itself. */
async function inPlaceNow(root: Storage): Promise<Record<string, string>> {
  const files = [...(await snapshot(siteOf(root)))];
  return Object.fromEntries(
    files.filter(([name]) => !isOfReleases(name) && !name.startsWith('.publisher')).sort(),
  );
}

async function releasesNow(root: Storage): Promise<[string, string][]> {
  const files = [...(await snapshot(siteOf(root)))];
  return files.filter(([name]) => isOfReleases(name) || name === ledgerKey);
}

function sorted(files: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).sort());
}

const additive = { workflow: 'additive' } as const;
const changed = (would: 'has changed' | 'would change'): object[] => [
  {
    ...{ severity: 'warning', code: 'layout_changed' },
    message: `target=site: the layout ${would}: have it served from "site" itself, then take down its releases with \`waybill unpublish --layout releases site\``,
    ...{ file: null, pointer: null, line: null, column: null },
  },
];

for (const flavour of flavours) {
  t.test(`${flavour}: what readers had gets to its own place, and the releases stay`, async (t) => {
    const root = await published(flavour, 0, 1);
    await put(root, 'sibling.txt', 'a sibling');
    const before = await snapshot(root);
    const releases = await releasesNow(root);
    const planned = await inPlace(root, 2, { request: { dryRun: true } });
    t.same(await snapshot(root), before, 'a dry run changes nothing');
    t.same(planned.warnings, changed('would change'));
    const done = await inPlace(root, 2);
    t.same(
      [done.action, done.error, done.release, done.warnings],
      ['replace_catalog', null, null, changed('has changed')],
    );
    for (const key of ['action', 'reason', 'changes', 'outputs', 'unkept'] as const)
      t.same(done[key], planned[key], `${key}, as the dry run said`);
    t.same([done.outputsWritten, done.outputsKept, done.outputsRemoved], [3, 1, 1]);
    t.same(await inPlaceNow(root), sorted(filesOf(2)));
    t.same(await releasesNow(root), releases, 'readers of the pointer have what they had');
    t.same([(await lookAtReleases(root)).wrong, await litterBelow(root)], [[], []]);

    const later = await inPlace(root, 3);
    t.same([later.action, later.error, later.warnings], ['replace_catalog', null, []], 'it is told once');
    t.same(await inPlaceNow(root), sorted(filesOf(3)));
  });

  t.test(`${flavour}: the same bundle is a change of layout, and nothing else`, async (t) => {
    const root = await published(flavour, 0);
    const planned = await inPlace(root, 0, { request: { dryRun: true } });
    const done = await inPlace(root, 0);
    const reason = {
      code: 'layout_changed',
      message: 'it was published with `layout: releases`, and is with `layout: in_place` from now on',
    };
    for (const { action, reason: why, error } of [planned, done])
      t.same([action, why, error], ['replace_catalog', reason, null]);
    t.same([done.outputsWritten, done.outputsKept], [0, 4]);
    t.same([planned.warnings, done.warnings], [changed('would change'), changed('has changed')]);
    t.same(await inPlaceNow(root), sorted(filesOf(0)));
    const again = await inPlace(root, 0);
    t.same([again.action, again.reason?.code === 'layout_changed', again.warnings], ['skip_same', false, []]);
  });

  t.test(`${flavour}: what was rolled back to is what readers had`, async (t) => {
    const root = await published(flavour, 0, 1);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    const done = await inPlace(root, 2, { destination: additive });
    t.same([done.action, done.error], ['upsert_additive', null]);
    t.same(await inPlaceNow(root), sorted({ ...filesOf(0), ...filesOf(2) }), 'and is carried over');
  });

  t.test(`${flavour}: no byte of it passes through this machine`, async (t) => {
    const inner = await published(flavour, 0);
    const duplicates: string[] = [];
    const root: Storage = {
      ...inner,
      async duplicate(from, to) {
        duplicates.push(from);
        return inner.duplicate(from, to);
      },
    };
    await inPlace(root, 0);
    const id = await releaseIdFor(0);
    const from = Object.keys(filesOf(0)).map((name) => `${site}/${releaseKey(id)}/${name}`);
    t.same(duplicates.sort(), from.sort());
  });

  t.test(`${flavour}: content that is nobody's is refused, and goes by force alone`, async (t) => {
    const root = await published(flavour, 0);
    await put(root, 'site/mine.txt', 'mine');
    await put(root, 'site/releases/notes.txt', 'mine, too');
    const before = await snapshot(root);
    for (const dryRun of [true, false]) {
      const refused = await inPlace(root, 1, { request: { dryRun } });
      t.match(refused, { action: 'fail_unmanaged', reason: { code: 'content_unmanaged' }, warnings: [] });
      t.equal(refused.error?.code, 'unmanaged_content');
    }
    t.same(await snapshot(root), before);
    const releases = (await releasesNow(root)).filter(([name]) => !name.includes('notes'));
    const done = await inPlace(root, 1, { request: { force: true } });
    t.same([done.error, await inPlaceNow(root)], [null, sorted(filesOf(1))]);
    t.same(await releasesNow(root), releases, 'the releases are none of it');
  });

  t.test(`${flavour}: a refusal leaves everything as it was`, async (t) => {
    const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
    const broken = await published(flavour, 5);
    await put(broken, `${site}/${releaseKey(await releaseIdFor(5))}/.publisher.json`, '{');
    const taken = memoryStorage({ flavour });
    const current = { ...bundleOf({ 'current/x': 'x' }), created: bundleFor(5).created };
    await publishAsRelease(taken, 5, { bundle: { ...current, path: 'site' } });
    for (const [what, root, asked, n, code, message] of [
      [
        'an older bundle',
        await published(flavour, 5),
        { destination: { stale: 'refuse' } },
        1,
        'stale_bundle',
        /./,
      ],
      [
        'too many removals',
        await published(flavour, 5),
        { destination: { limits } },
        6,
        'too_many_removals',
        /./,
      ],
      [
        'another owner',
        await published(flavour, 5),
        { as: otherOwner },
        6,
        'not_owned',
        /^"site" holds outputs of maps\/web/,
      ],
      [
        'a broken catalog',
        broken,
        {},
        6,
        'state_conflict',
        /^"site" is published with `layout: releases`, and the catalog of/,
      ],
      [
        'an output in the way',
        taken,
        {},
        6,
        'state_conflict',
        /the output "current\/x" would take the place/,
      ],
      [
        'a new output in the way',
        await published(flavour, 5),
        { bundle: { ...current, path: 'site', created: bundleFor(6).created } },
        6,
        'state_conflict',
        /the output "current\/x" would take the place/,
      ],
    ] as [string, Storage, Asked, number, string, RegExp][]) {
      const before = await snapshot(root);
      for (const dryRun of [true, false]) {
        const done = await inPlace(root, n, { ...asked, request: { dryRun } });
        t.same([done.error?.code, done.warnings], [code, []], what);
        t.match(done.error?.message, message, what);
      }
      t.same(await snapshot(root), before, what);
    }
  });

  t.test(`${flavour}: switched or published meanwhile, it begins again`, async (t) => {
    for (const [what, meanwhile, expected] of [
      // An object store has no lease that a switch waits for: the move may as well have come first.
      ['another release', async (root: Storage) => publishAsRelease(root, 2), flavour === 'files' ? 2 : 1],
      [
        'a rollback and the end of that release',
        async (root: Storage): Promise<void> => {
          await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
          await siteOf(root).removeTree(releaseKey(await releaseIdFor(1)));
        },
        0,
      ],
    ] as const) {
      const inner = await published(flavour, 0, 1);
      let isFirst = true;
      const root: Storage = {
        ...inner,
        async write(key, body, options) {
          const written = await inner.write(key, body, options);
          // The lease, or the intent, of the move.
          if (isFirst && key.startsWith('site/.publisher')) {
            isFirst = false;
            await meanwhile(inner);
          }
          return written;
        },
      };
      const told: Decided[] = [];
      const done = await inPlace(root, 3, {
        ...{ destination: additive, request: { onDecided: (one) => void told.push(one) } },
      });
      t.same([done.error, done.warnings], [null, changed('has changed')], what);
      t.same(await inPlaceNow(inner), sorted({ ...filesOf(expected), ...filesOf(3) }), what);
      t.same(await litterBelow(inner), [], what);
    }
  });
}

t.test('at the destination root, and told as such', async (t) => {
  const whole = await published('files', 0);
  const root = within(whole, site);
  const done = await inPlace(root, 1, { at: '.' });
  t.equal(done.error, null);
  t.match(
    done.warnings[0]?.message,
    /have it served from the destination root itself, .* --layout releases \.`/,
  );
});
