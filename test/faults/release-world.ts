import type { SourceBundle } from '../../src/core/bundle/source-bundle.ts';
import type { ChannelConfig, DestinationConfig } from '../../src/core/config/config.ts';
import type { Clock } from '../../src/core/lib/clock.ts';
import { hasCode } from '../../src/core/lib/errors.ts';
import { planOutputs } from '../../src/core/publish/outputs.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import { retireReleases } from '../../src/core/publish/unpublish/retire-releases.ts';
import { unpublish } from '../../src/core/publish/unpublish/unpublish.ts';
import { type Releases, rolledBackReleases } from '../../src/core/releases/ledger.ts';
import { type ReleaseId, releaseIdOf, releaseKey } from '../../src/core/releases/release.ts';
import { ledgerKey, readReleases } from '../../src/core/releases/releases-store.ts';
import { surveyReleases, unusableReason } from '../../src/core/releases/stored-releases.ts';
import type { Owner } from '../../src/core/storage/identity.ts';
import { listedKey, nameOf, parentOf } from '../../src/core/storage/key.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { subdirectory } from '../../src/core/storage/wrappers/subdirectory.ts';
import { instant } from '../support/instant.ts';
import { bundleOf, contextWith, destinationOf, type Files, owner, testClock } from './world.ts';

/** The bundle path with the releases under test. */
export const site = listedKey('site');

export function siteOf(root: Storage): Storage {
  return subdirectory(root, site);
}

/** The files of the n-th release. Each file names its release. */
export function filesOf(n: number): Files {
  return {
    ...{ 'index.html': `page ${n}`, 'assets/app.js': `script ${n}`, [`only-${n}.txt`]: `${n}` },
    'assets/style.css': 'the same in each',
  };
}

/** The n-th bundle, whose release has the id `releaseIdFor(n)`. */
export function bundleFor(n: number): SourceBundle {
  return { ...bundleOf(filesOf(n), 'site'), created: instant(`2026-11-${10 + n}T10:00:00Z`) };
}

/** The id of the n-th release, whether or not it is published. */
export async function releaseIdFor(n: number): Promise<ReleaseId> {
  const bundle = bundleFor(n);
  const destination = destinationOf('replacement');
  const outputs = await planOutputs(bundle, { owner, destination, destinationPath: site, recorded: [] });
  return releaseIdOf(bundle.created, outputs);
}

export interface ReleasePublicationOptions {
  clock?: Clock;
  keep?: number;
  lingerMs?: number;
  workflow?: 'additive' | 'replacement';
  force?: boolean;
  dryRun?: boolean;
  bundle?: SourceBundle;
  as?: Owner;
  more?: Partial<DestinationConfig>;
  channel?: ChannelConfig | null;
  selectAgain?: () => Promise<SourceBundle>;
}

/** Publishes bundle n as a run does: as the current release, with at most `keep` others. */
export async function publishAsRelease(
  root: Storage,
  n: number,
  options: ReleasePublicationOptions = {},
): Promise<ActionResult> {
  const { clock = testClock(), keep = 9, workflow = 'replacement', as = owner, more = {} } = options;
  const { bundle = bundleFor(n), force = false, dryRun = false, lingerMs = 0, channel = null } = options;
  const rule = { keep, lingerMs, currentInUrl: false, channels: channel === null ? [] : [channel] };
  const destination = { ...destinationOf(workflow), releases: rule, ...more };
  const { selectAgain } = options;
  const again = selectAgain === undefined ? {} : { selectAgain };
  const publication = { bundle, owner: as, destination, destinationPath: site, ...again };
  return publishBundle(contextWith(clock), root, publication, { dryRun, force, channel: channel?.name });
}

/** Publishes the n-th bundle in place, like a run before the layout changed. */
export async function publishInPlace(
  root: Storage,
  n: number,
  workflow: 'additive' | 'replacement' = 'replacement',
): Promise<ActionResult> {
  const publication = { bundle: bundleFor(n), owner, destination: destinationOf(workflow) };
  const request = { dryRun: false, force: false };
  return publishBundle(contextWith(testClock()), root, { ...publication, destinationPath: site }, request);
}

/** Unpublishes the bundle path. Also succeeds once there is nothing left. */
export async function takeDown(root: Storage): Promise<boolean> {
  const request = { owner, destinationPath: site, maxRemoved: null, dryRun: false, concurrency: 2 };
  return unpublish(contextWith(testClock()), root, request).then(
    () => true,
    (error: unknown) => hasCode(error, 'not_published'),
  );
}

/** Publishes release n as a separate bundle path without readers. */
export async function writeRelease(root: Storage, n: number, clock: Clock = testClock()): Promise<ReleaseId> {
  const bundle = bundleFor(n);
  const destination = destinationOf('replacement');
  const id = await releaseIdFor(n);
  const publication = { bundle, owner, destination, destinationPath: id };
  // A bundle path within a release is rejected, but a destination root there is not.
  const releases = subdirectory(siteOf(root), parentOf(releaseKey(id)));
  const { error } = await publishBundle(contextWith(clock), releases, publication, {
    ...{ dryRun: false, force: false },
  });
  if (error !== null) throw new Error(`${error.code}: ${error.message}`);
  return id;
}

/** Removes old releases beyond `keep` immediately, without a linger time. */
export async function retire(root: Storage, keep: number, clock: Clock = testClock()): Promise<ReleaseId[]> {
  const context = contextWith(clock);
  const { releases } = await retireReleases(context, siteOf(root), {
    rule: { keep, lingerMs: 0 },
    concurrency: 2,
  });
  return releases;
}

export interface ReleasesLook extends Releases {
  /** Complete or not, sorted. */
  stored: ReleaseId[];
  rolledBack: ReleaseId[];
  /** Violations of the invariant. */
  wrong: string[];
}

/** The permanent invariant: the readers' release is complete, and is not being removed. */
export async function lookAtReleases(root: Storage): Promise<ReleasesLook> {
  const storage = siteOf(root);
  const releases = await readReleases(storage);
  const { current, ledger, channels } = releases;
  const wrong: string[] = [];
  for (const shown of new Set([...(current === null ? [] : [current]), ...channels.values()])) {
    const obstacle = await unusableReason(storage, shown);
    if (obstacle !== null) wrong.push(`the release of readers is ${JSON.stringify(obstacle)}`);
    if (ledger.removing.includes(shown)) wrong.push('the release of readers is being removed');
  }
  const stored = (await surveyReleases(storage)).stored.map(({ id }) => id);
  return { ...releases, stored, rolledBack: rolledBackReleases(releases), wrong };
}

/** Names of the publisher that must not remain: all except catalogs and the ledger. */
export async function litterBelow(root: Storage): Promise<string[]> {
  const leftovers: string[] = [];
  for await (const { key } of root.list('', { recursive: true }))
    if (key.includes('.publisher') && nameOf(key) !== '.publisher.json' && nameOf(key) !== ledgerKey)
      leftovers.push(key);
  return leftovers;
}
