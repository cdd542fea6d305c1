import t from 'tap';
import type { Decided } from '../../../../src/core/publish/publish-request.ts';
import { unpublish as takeDown } from '../../../../src/core/publish/unpublish/unpublish.ts';
import type { Layout } from '../../../../src/core/releases/release.ts';
import { readReleases } from '../../../../src/core/releases/releases-store.ts';
import { surveyReleases } from '../../../../src/core/releases/stored-releases.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { subdirectory } from '../../../../src/core/storage/wrappers/subdirectory.ts';
import { contextWith, owner, put, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';
import { newer, oldest, Stand } from '../stand.ts';

/** Releases in whole runs: the data that the pipeline passes to them, and their reports. */

const rule = { keep: 9, lingerMs: 0, currentInUrl: false, channels: [] };
const latest = '2026-11-22T00:00:00.000Z';

async function unpublish({ web }: Stand, layout: Layout): Promise<void> {
  await takeDown(contextWith(testClock()), web, {
    ...{ owner, destinationPath: 'site', layout, maxRemoved: null, dryRun: false, concurrency: 1 },
  });
}

for (const flavour of ['files', 'objects'] as const) {
  t.test(`${flavour}: a change of layout in either direction is a warning of the destination`, async (t) => {
    const stand = new Stand();
    stand.web = memoryStorage({ flavour });
    await stand.add('site', { 'index.html': 'page' });
    const first = await stand.run();
    t.same([first.status, first.destinations[0]?.warnings], ['ok', []]);
    for (const [releases, to] of [
      [rule, 'releases'],
      [null, 'in_place'],
    ] as const) {
      if (releases === null) await unpublish(stand, 'in_place');
      const { status, destinations } = await stand.run({ releases });
      const [{ warnings, actions } = { warnings: [], actions: [] }] = destinations;
      t.same([status, warnings.map(({ code }) => code)], ['ok', ['layout_changed']], to);
      t.same([actions[0]?.action, actions[0]?.reason?.code], ['replace_catalog', 'layout_changed'], to);
    }
  });

  t.test(`${flavour}: refuses unmanaged content`, async (t) => {
    const stand = new Stand();
    stand.web = memoryStorage({ flavour });
    await put(stand.web, 'site/foreign.txt', 'of others');
    await stand.add('site', { 'index.html': 'page' });
    const { destinations } = await stand.run();
    const [action] = destinations[0]?.actions ?? [];
    t.match(action, { reason: { code: 'content_unmanaged' }, error: { code: 'unmanaged_content' } });
    t.notMatch(action?.error?.message, /releases/);
  });

  t.test(`${flavour}: keeps the configured number of releases`, async (t) => {
    const stand = new Stand();
    stand.web = memoryStorage({ flavour });
    for (const created of [oldest, newer, latest]) {
      await stand.add('site', { 'index.html': created }, created);
      t.match(await stand.run({ releases: { ...rule, keep: 1 } }), { status: 'ok' });
    }
    const { stored } = await surveyReleases(subdirectory(stand.web, listedKey('site')));
    t.equal(stored.length, 2, 'the current one and the last good one');
  });

  t.test(`${flavour}: switches only the requested channel, with its own expiry`, async (t) => {
    const stand = new Stand();
    stand.web = memoryStorage({ flavour });
    await stand.add('site', { 'index.html': 'page' });
    const channels = [
      { name: 'alpha', ttlMs: 1_000 },
      { name: 'beta', ttlMs: 2_000 },
    ];
    const releases = { ...rule, channels };
    t.match(await stand.run({ releases, request: { channel: 'beta' } }), { status: 'ok' });
    const site = subdirectory(stand.web, listedKey('site'));
    const { current, ledger } = await readReleases(site);
    const [only, ...others] = ledger.channels;
    t.same([current, only?.name, others], [null, 'beta', []]);
    t.equal(Date.parse(only!.expiresAt) - Date.parse(only!.setAt), 2_000);
    await t.rejects(stand.run({ releases, request: { channel: 'gamma' } }), { code: 'channel_not_found' });
    t.match(await stand.run({ releases }), { status: 'ok' });
    t.not((await readReleases(site)).current, null);
  });

  t.test(`${flavour}: URLs have current if current_in_url is set`, async (t) => {
    for (const [currentInUrl, mapping, url] of [
      [true, 'preserve_relative', 'https://maps.example.org/site/current/index.html'],
      [false, 'preserve_relative', 'https://maps.example.org/site/index.html'],
      [true, 'fixed', 'https://maps.example.org/current/index.html'],
    ] as const) {
      const stand = new Stand();
      stand.web = memoryStorage({ flavour });
      await stand.add('site', { 'index.html': 'page' });
      const { destinations } = await stand.run({
        ...{ mapping, publicBaseUrl: 'https://maps.example.org/' },
        releases: { ...rule, currentInUrl },
      });
      t.equal(destinations[0]?.actions[0]?.outputs[0]?.url, url);
    }
  });

  t.test(`${flavour}: does not warn of a replaced destination root`, async (t) => {
    const stand = new Stand();
    stand.web = memoryStorage({ flavour });
    await stand.add('one', { 'index.html': 'one' }, oldest);
    const settings = { mapping: 'fixed', releases: rule } as const;
    await stand.run(settings);
    await stand.add('two', { 'index.html': 'two' }, newer);
    const { destinations } = await stand.run(settings);
    t.match(destinations[0]?.actions, [{ action: 'replace_catalog', error: null }]);
    t.same(
      destinations[0]?.warnings.map(({ code }) => code),
      ['fixed_bundle_selected'],
      'the root is not replaced: the previous release stays',
    );
  });

  t.test(`${flavour}: passes on the decision, also to a run that started before`, async (t) => {
    const stand = new Stand();
    stand.web = memoryStorage({ flavour });
    await stand.add('site', { 'index.html': 'page' });
    for (const releases of [rule, null]) {
      stand.web = memoryStorage({ flavour });
      for (const reportCommitsSince of [undefined, oldest]) {
        const decided: Decided[] = [];
        const onDecided = (one: Decided): void => void decided.push(one);
        const request = { onDecided, ...(reportCommitsSince === undefined ? {} : { reportCommitsSince }) };
        t.match(await stand.run({ releases, request }), { status: 'ok' });
        t.ok(decided.length > 0, `releases ${releases !== null}, since ${reportCommitsSince}`);
      }
    }
  });
}
