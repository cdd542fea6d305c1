import t from 'tap';
import type { SourceBundle } from '../../../../src/core/bundle/source-bundle.ts';
import { readState } from '../../../../src/core/catalog/catalog-store.ts';
import type { DestinationConfig } from '../../../../src/core/config/config.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { type Finding, WaybillError } from '../../../../src/core/lib/errors.ts';
import { publishBundle } from '../../../../src/core/publish/publish-bundle.ts';
import type { Decided, PublishRequest } from '../../../../src/core/publish/publish-request.ts';
import type { ActionResult, Progress } from '../../../../src/core/publish/results/result.ts';
import { isReleaseKey, releaseKey } from '../../../../src/core/releases/release.ts';
import { ledgerKey } from '../../../../src/core/releases/releases-store.ts';
import { rollBack } from '../../../../src/core/releases/switch.ts';
import type { Owner } from '../../../../src/core/storage/identity.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
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
import { memoryStorage } from '../../../support/memory-storage.ts';

/** A bundle path with releases, for which the configuration now requires publication in place. */

const flavours = ['files', 'objects'] as const;

interface Asked {
  bundle?: SourceBundle;
  as?: Owner;
  at?: string;
  destination?: Partial<DestinationConfig>;
  request?: Partial<PublishRequest>;
  selectAgain?: () => Promise<SourceBundle>;
  signal?: AbortSignal;
}

interface LoggedResult extends ActionResult {
  warnings: Finding[];
}

async function inPlace(root: Storage, n: number, asked: Asked = {}): Promise<LoggedResult> {
  const { bundle = bundleFor(n), as = owner, at = site, destination, request, signal, ...more } = asked;
  const warnings: Finding[] = [];
  const result = await publishBundle(
    { ...contextWith(testClock()), ...(signal === undefined ? {} : { signal }) },
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

/** The files at the bundle path itself. */
async function inPlaceNow(root: Storage): Promise<Record<string, string>> {
  const files = [...(await snapshot(siteOf(root)))];
  return Object.fromEntries(
    files.filter(([name]) => !isReleaseKey(name) && !name.startsWith('.publisher')).sort(),
  );
}

async function releasesNow(root: Storage): Promise<[string, string][]> {
  const files = [...(await snapshot(siteOf(root)))];
  return files.filter(([name]) => isReleaseKey(name) || name === ledgerKey);
}

function sorted(files: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(files).sort());
}

const additive = { workflow: 'additive' } as const;
const changed = (would: 'has changed' | 'would change'): object[] => [
  {
    ...{ severity: 'warning', code: 'layout_changed' },
    message: `target=site: the layout ${would}: have it served from "site" itself, then remove its releases with waybill unpublish --layout releases site`,
    ...{ file: null, pointer: null, line: null, column: null },
  },
];

for (const flavour of flavours) {
  t.test(`${flavour}: the current release moves to its place, and the releases stay`, async (t) => {
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
      t.same(done[key], planned[key], `${key}, as in the dry run`);
    t.same([done.outputsWritten, done.outputsKept, done.outputsRemoved], [3, 1, 1]);
    t.same(await inPlaceNow(root), sorted(filesOf(2)));
    t.same(await releasesNow(root), releases, 'readers of the pointer see the same release');
    t.same([(await lookAtReleases(root)).wrong, await litterBelow(root)], [[], []]);

    const later = await inPlace(root, 3);
    t.same([later.action, later.error, later.warnings], ['replace_catalog', null, []], 'it is reported once');
    t.same(await inPlaceNow(root), sorted(filesOf(3)));
  });

  t.test(`${flavour}: the same bundle changes only the layout`, async (t) => {
    const root = await published(flavour, 0);
    const planned = await inPlace(root, 0, { request: { dryRun: true } });
    const done = await inPlace(root, 0);
    const reason = {
      code: 'layout_changed',
      message: 'the layout changed from `layout: releases` to `layout: in_place`',
    };
    for (const { action, reason: why, error } of [planned, done])
      t.same([action, why, error], ['replace_catalog', reason, null]);
    t.same([done.outputsWritten, done.outputsKept], [0, 4]);
    t.same([planned.warnings, done.warnings], [changed('would change'), changed('has changed')]);
    t.same(await inPlaceNow(root), sorted(filesOf(0)));
    const again = await inPlace(root, 0);
    t.same([again.action, again.reason?.code === 'layout_changed', again.warnings], ['skip_same', false, []]);
  });

  t.test(`${flavour}: moves the release that was rolled back to`, async (t) => {
    const root = await published(flavour, 0, 1);
    await rollBack(contextWith(testClock()), siteOf(root), null, { dryRun: false });
    const done = await inPlace(root, 2, { destination: additive });
    t.same([done.action, done.error], ['upsert_additive', null]);
    t.same(await inPlaceNow(root), sorted({ ...filesOf(0), ...filesOf(2) }), 'and is carried over');
  });

  t.test(`${flavour}: the move transfers no bytes`, async (t) => {
    const inner = await published(flavour, 0);
    const duplicates: string[] = [];
    const root: Storage = {
      ...inner,
      async duplicate(from, to) {
        duplicates.push(from);
        return inner.duplicate!(from, to);
      },
    };
    await inPlace(root, 0);
    const id = await releaseIdFor(0);
    const from = Object.keys(filesOf(0)).map((name) => `${site}/${releaseKey(id)}/${name}`);
    t.same(duplicates.sort(), from.sort());
  });

  t.test(`${flavour}: refuses unmanaged content, and removes it only with force`, async (t) => {
    const root = await published(flavour, 0);
    await put(root, 'site/mine.txt', 'mine');
    await put(root, 'site/releases/notes.txt', 'mine, too');
    const before = await snapshot(root);
    for (const dryRun of [true, false]) {
      const refused = await inPlace(root, 1, { request: { dryRun } });
      t.match(refused, {
        action: 'fail_unmanaged',
        reason: { code: 'content_unmanaged' },
        warnings: { length: 0 },
      });
      t.equal(refused.error?.code, 'unmanaged_content');
    }
    t.same(await snapshot(root), before);
    const releases = (await releasesNow(root)).filter(([name]) => !name.includes('notes'));
    const done = await inPlace(root, 1, { request: { force: true } });
    t.same([done.error, await inPlaceNow(root)], [null, sorted(filesOf(1))]);
    t.same(await releasesNow(root), releases, 'the releases do not count');
  });

  t.test(`${flavour}: a refusal leaves everything unchanged`, async (t) => {
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
        /^"site" has outputs of maps\/web/,
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
        /the output "current\/x" would overwrite its pointer/,
      ],
      [
        'a new output in the way',
        await published(flavour, 5),
        { bundle: { ...current, path: 'site', created: bundleFor(6).created } },
        6,
        'state_conflict',
        /the output "current\/x" would overwrite its pointer/,
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

  t.test(`${flavour}: starts over after another switch or publication`, async (t) => {
    for (const [what, meanwhile, expected] of [
      // On an object store, a switch does not wait for a lease: the move may have come first as well.
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
      const decisions: Decided[] = [];
      const done = await inPlace(root, 3, {
        ...{ destination: additive, request: { onDecided: (one) => void decisions.push(one) } },
      });
      t.same([done.error, done.warnings], [null, changed('has changed')], what);
      t.same(await inPlaceNow(inner), sorted({ ...filesOf(expected), ...filesOf(3) }), what);
      t.same(await litterBelow(inner), [], what);
    }
  });
}

t.test('reports a move at the destination root', async (t) => {
  const whole = await published('files', 0);
  const root = subdirectory(whole, site);
  const done = await inPlace(root, 1, { at: '.' });
  t.equal(done.error, null);
  t.match(
    done.warnings[0]?.message,
    /have it served from the destination root itself, .* --layout releases \.$/,
  );
});

/** Calls `work` once, after the first change that makes it due. */
function once(
  inner: Storage,
  isDue: (key: string) => Promise<boolean>,
  work: () => Promise<unknown>,
): Storage {
  let isOver = false;
  const afterwards = async <T>(key: string, result: T): Promise<T> => {
    const isNow: boolean = !isOver && (await isDue(key));
    if (!isNow) return result;
    isOver = true;
    await work();
    return result;
  };
  return delegate(inner, {
    write: async (key, body, options) => afterwards(key, await inner.write(key, body, options)),
    rename: async (moves) => {
      await inner.rename!(moves);
      await afterwards('', null);
    },
    remove: async (key, options) => {
      await inner.remove(key, options);
      await afterwards(key, null);
    },
  });
}

/** The lease or, on an object store, the intent of the move. */
const isBegun = async (key: string): Promise<boolean> => key.startsWith('site/.publisher');

for (const flavour of flavours) {
  const isMoved = (root: Storage) => async (): Promise<boolean> => {
    const { state } = await readState(siteOf(root));
    const isHeld = (await root.stat(listedKey('site/.publisher.lock'))) !== undefined;
    return state.kind === 'valid' && state.catalog.pending === null && !isHeld;
  };

  t.test(`${flavour}: reports the plan once, from the first decision`, async (t) => {
    for (const dryRun of [true, false]) {
      const root = await published(flavour, 0);
      const reported: Progress[] = [];
      const decided: Decided[] = [];
      await inPlace(root, 1, {
        request: {
          ...{
            dryRun,
            onProgress: (one) => void reported.push(one),
            onDecided: (one) => void decided.push(one),
          },
        },
      });
      const planned = reported.filter(({ type }) => type === 'planned');
      const bytes = 'page 1'.length + 'script 1'.length + '1'.length;
      t.same(planned, [
        {
          ...{ type: 'planned', destinationId: 'web', destinationPath: site, action: 'replace_catalog' },
          ...{ outputs: 3, bytes },
        },
      ]);
      t.equal(decided.length, 1);
    }
  });

  t.test(`${flavour}: does not report the plan again in later rounds`, async (t) => {
    const inner = await published(flavour, 0, 1);
    const reported: Progress[] = [];
    const root = once(inner, isBegun, async () => publishAsRelease(inner, 2));
    const { error } = await inPlace(root, 3, { request: { onProgress: (one) => void reported.push(one) } });
    t.equal(error, null);
    t.equal(reported.filter(({ type }) => type === 'planned').length, 1);
  });

  t.test(
    `${flavour}: another process that published in place first reports the change of layout`,
    async (t) => {
      const inner = await published(flavour, 0);
      let others: LoggedResult | undefined;
      let isFirst = true;
      const root: Storage = {
        ...inner,
        async *list(directory, options) {
          // Before the lease of the move.
          if (isFirst) {
            isFirst = false;
            others = await inPlace(inner, 1);
          }
          yield* inner.list(directory, options);
        },
      };
      const done = await inPlace(root, 2);
      t.same([others?.error, others?.warnings], [null, changed('has changed')]);
      t.same([done.error, done.warnings], [null, []]);
      t.same(await inPlaceNow(inner), sorted(filesOf(2)));
    },
  );

  t.test(`${flavour}: allowed removals also apply after the move`, async (t) => {
    const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
    const root = await published(flavour, 0);
    const done = await inPlace(root, 1, { destination: { limits }, request: { allowRemovals: true } });
    t.same([done.error, done.outputsRemoved], [null, 1]);
  });

  t.test(`${flavour}: rejects an unpublishable bundle before anything is moved`, async (t) => {
    const root = await published(flavour, 0);
    const id = await releaseIdFor(0);
    await put(root, `site/${releaseKey(id)}/only-1.txt`, 'mine');
    const before = await snapshot(root);
    for (const dryRun of [true, false]) {
      const { action, error, warnings } = await inPlace(root, 1, { request: { dryRun } });
      t.same([action, error?.code, warnings], ['fail_unmanaged', 'unmanaged_content', []]);
    }
    t.same(await snapshot(root), before);
  });

  t.test(`${flavour}: a dry run checks for obstacles to the move and the publication`, async (t) => {
    const inner = await published(flavour, 0);
    const looked: object[] = [];
    const obstacle = new WaybillError('storage_permanent', 'in the way');
    const root: Storage = {
      ...inner,
      async obstacleTo({ writes, removes, bytes }) {
        looked.push({ writes: [...writes].sort(), removes, bytes });
        return obstacle;
      },
    };
    const planned = await inPlace(root, 1, { request: { dryRun: true } });
    t.same([planned.error?.message, planned.warnings], ['in the way', []]);
    const moved = Object.keys(filesOf(0));
    const added = Object.keys(filesOf(1)).filter((name) => !name.endsWith('style.css'));
    const bytes = added.reduce((sum, name) => sum + filesOf(1)[name]!.length, 0);
    const keys = [...moved, ...added].map((name) => `site/${name}`).sort();
    t.same(looked, [{ writes: keys, removes: [], bytes }]);
    await put(inner, 'site/.publisher.tmp/x/y', 'staged');
    await inPlace(root, 1, { request: { dryRun: true } });
    t.same(looked[1], { ...looked[0], bytes: flavour === 'files' ? null : bytes });
    const before = await snapshot(inner);
    looked.length = 0;
    const refused = await inPlace(root, 1);
    t.same([refused.error?.message, refused.warnings], ['in the way', []]);
    const whole = moved.reduce((sum, name) => sum + filesOf(0)[name]!.length, 0);
    t.same(looked, [{ writes: moved.map((name) => `site/${name}`).sort(), removes: [], bytes: whole }]);
    const after = await snapshot(inner);
    for (const [name, text] of before) if (!name.includes('.publisher')) t.equal(after.get(name), text);
    t.same(await inPlaceNow(inner), {});
  });

  t.test(`${flavour}: a malformed ledger counts as foreign content, a storage error does not`, async (t) => {
    const broken = memoryStorage({ flavour });
    const pointer = flavour === 'files' ? 'site/.publisher.releases.json' : 'site/current.json';
    await put(broken, pointer, '{');
    const { action, error } = await inPlace(broken, 0);
    t.same(
      [action, error?.code],
      flavour === 'files' ? ['publish_new', undefined] : ['fail_unmanaged', 'unmanaged_content'],
    );
    const inner = await published(flavour, 0);
    const away = async (): Promise<never> => {
      throw new WaybillError('storage_permanent', 'no answer');
    };
    const root = delegate(inner, {
      readLink: away,
      stat: async (key) => (key.endsWith('current.json') ? away() : inner.stat(key)),
    });
    t.equal((await inPlace(root, 1)).error?.message, 'no answer');
    t.same(await inPlaceNow(inner), {});
  });

  t.test(`${flavour}: reports an obstacle to the move, and changes nothing`, async (t) => {
    const inner = await published(flavour, 0);
    const root: Storage = {
      ...inner,
      duplicate: async () => null,
      async write(key, body, options) {
        if (/index\.html$|\.publisher\.tmp\//.test(key))
          throw new WaybillError('storage_permanent', 'no room');
        return inner.write(key, body, options);
      },
    };
    const { error, warnings } = await inPlace(root, 1);
    t.same([error?.code, error?.message, warnings], ['storage_permanent', 'no room', []]);
    t.same(await inPlaceNow(inner), {});
  });

  t.test(`${flavour}: a stop in the middle leaves nothing in place`, async (t) => {
    const inner = await published(flavour, 0);
    const stop = new AbortController();
    const root: Storage = {
      ...inner,
      async duplicate(from, to) {
        stop.abort(new Error('stopped'));
        return inner.duplicate!(from, to);
      },
    };
    const { error, warnings } = await inPlace(root, 1, { signal: stop.signal });
    t.same([error?.code, warnings], ['aborted', []]);
    t.same(await inPlaceNow(inner), {});
  });

  t.test(`${flavour}: does not overwrite a foreign file that appeared after the decision`, async (t) => {
    const inner = await published(flavour, 0);
    let isFirst = true;
    const root: Storage = {
      ...inner,
      async *list(directory, options) {
        yield* inner.list(directory, options);
        if (isFirst) await put(inner, 'site/index.html', 'mine');
        isFirst = false;
      },
    };
    const { action, warnings } = await inPlace(root, 1);
    t.same([action, warnings], ['fail_unmanaged', []]);
    t.same(await inPlaceNow(inner), { 'index.html': 'mine' });
    t.equal((await readState(siteOf(inner))).state.kind, 'absent', 'and not recorded as published');
  });

  t.test(
    `${flavour}: reports no change of layout if the publication is refused after the move`,
    async (t) => {
      const inner = await published(flavour, 0);
      const root = once(inner, isMoved(inner), async () => put(inner, 'site/only-1.txt', 'mine'));
      const { action, warnings } = await inPlace(root, 1);
      t.same([action, warnings], ['fail_unmanaged', []]);
      t.same(await inPlaceNow(inner), sorted({ ...filesOf(0), 'only-1.txt': 'mine' }));
    },
  );

  t.test(`${flavour}: removes the remains of an interrupted first publication`, async (t) => {
    const root = await published(flavour, 0);
    const bytes = Buffer.from('5');
    const record = { path: 'only-5.txt', digest: digestOf(bytes), size: 1 };
    const catalog = JSON.parse(
      (await snapshot(root)).get(`site/${releaseKey(await releaseIdFor(0))}/.publisher.json`)!,
    ) as { outputs: object[] };
    const pending = {
      ...{ attempt_id: '0'.repeat(32), owner: { pipeline_id: 'maps', destination_id: 'web' } },
      ...{ action: 'publish_new', started_at: '2026-11-20T00:00:00.000Z', holder: null, renewals: 0 },
      ...{ outputs: [{ ...catalog.outputs[0], ...record }], removes: [] },
    };
    const left = { ...catalog, generation: 0, bundles: [], outputs: [], pending };
    await put(root, 'site/.publisher.json', JSON.stringify(left));
    await put(root, 'site/only-5.txt', '5');
    const limits = { ...destinationOf('replacement').limits, maxRemoved: { count: 0 } };
    const done = await inPlace(root, 0, { destination: { limits } });
    t.equal(done.error?.message, undefined);
    t.same([done.error, done.warnings], [null, changed('has changed')]);
    t.same(await inPlaceNow(root), sorted(filesOf(0)));
  });

  t.test(`${flavour}: does not move a bundle that is already in place`, async (t) => {
    const root = await published(flavour, 0);
    await inPlace(root, 1);
    const file = 'site/.publisher.json';
    const catalog = JSON.parse((await snapshot(root)).get(file)!) as { outputs: unknown[] };
    const pending = {
      ...{ attempt_id: '0'.repeat(32), owner: { pipeline_id: 'maps', destination_id: 'web' } },
      ...{ action: 'replace_catalog', started_at: '2026-11-20T00:00:00.000Z', holder: null, renewals: 0 },
      ...{ outputs: [], removes: [] },
    };
    await put(root, file, JSON.stringify({ ...catalog, pending }));
    const done = await inPlace(root, 2);
    t.same([done.error, done.warnings], [null, []], 'interrupted');
    const emptied = JSON.parse((await snapshot(root)).get(file)!) as object;
    for (const name of Object.keys(filesOf(2))) await root.remove(listedKey(`site/${name}`));
    await put(root, file, JSON.stringify({ ...emptied, outputs: [], bundles: [] }));
    const again = await inPlace(root, 3);
    t.same([again.error, again.warnings, again.outputsWritten], [null, [], 4], 'or emptied');
  });

  t.test(`${flavour}: assumes that a release without a recorded bundle has the current one`, async (t) => {
    const root = await published(flavour, 0);
    const file = `site/${releaseKey(await releaseIdFor(0))}/.publisher.json`;
    const catalog = JSON.parse((await snapshot(root)).get(file)!) as object;
    await put(root, file, JSON.stringify({ ...catalog, bundles: [] }));
    const recorded: unknown[] = [];
    const look = async (): Promise<void> => {
      const { state } = await readState(siteOf(root));
      if (state.kind === 'valid') recorded.push(...state.catalog.bundles.map(({ created }) => created));
    };
    t.equal((await inPlace(once(root, isMoved(root), look), 1)).error, null);
    t.same(recorded, [bundleFor(1).created]);
  });

  t.test(`${flavour}: the pointer of a channel does not count as existing content`, async (t) => {
    const root = await published(flavour, 0);
    await publishAsRelease(root, 1, { channel: { name: 'preview', ttlMs: 3_600_000 } });
    const done = await inPlace(root, 2);
    t.same([done.error, done.warnings], [null, changed('has changed')]);
    const { current, channels } = await lookAtReleases(root);
    t.same([current, channels.get('preview')], [await releaseIdFor(0), await releaseIdFor(1)]);
    const taken = await published(flavour, 0);
    await publishAsRelease(taken, 1, { channel: { name: 'preview', ttlMs: 3_600_000 } });
    const bundle = { ...bundleOf({ 'preview/x': 'x' }, 'site'), created: bundleFor(2).created };
    t.match(
      (await inPlace(taken, 2, { bundle })).error?.message,
      /the output "preview\/x" would overwrite its pointer/,
    );
  });
}
