import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { readState } from '../../src/core/catalog/catalog-store.ts';
import { surveyDestination } from '../../src/core/catalog/managed-paths.ts';
import { loadConfig } from '../../src/core/config/load-config.ts';
import { systemClock } from '../../src/core/lib/clock.ts';
import { verify } from '../../src/core/maintain/verify.ts';
import { publishPipeline } from '../../src/core/publish/publish.ts';
import { releaseKey } from '../../src/core/releases/release.ts';
import { readReleases } from '../../src/core/releases/releases-store.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { subdirectory } from '../../src/core/storage/wrappers/subdirectory.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { isExhaustive, sampleOf } from '../support/sampling.ts';
import { program } from './built-program.ts';
import { localPlace, s3Place, sftpPlace, type StoragePlace } from './storage-places.ts';
import { contextWith, snapshot } from './world.ts';

/**
 * Kills the built program with SIGKILL right before a change, in every command that changes a destination,
 * on each kind of storage. The next run publishes without force. Afterwards, `verify` is clean, and every
 * file of the destination is recorded in a catalog.
 */

const fixed = 'mapping: fixed, outputs: {checksums: true}';
const asReleases = `${fixed}, workflow: replacement, layout: releases, releases: {keep: 2, linger: 0s}`;
const inPlace = `${fixed}, workflow: replacement`;
const indexed = 'mapping: preserve_relative, workflow: replacement, outputs: {root_index: true}';
const named = ['--pipeline', 'maps', '--destination', 'web'];

interface Act {
  name: string;
  /** The settings of the destination. */
  settings: string;
  /** The settings of the destination before the command. Default: the same. */
  before?: string;
  command: readonly string[];
  /** Whether the command publishes a new version, from the source or from another destination. */
  publishes?: 'source' | 'staging';
  /** A command to run first. */
  after?: readonly string[];
  /** Whether readers of releases see one complete version at every moment. */
  isAlwaysWhole?: boolean;
}

const rollback = ['releases', 'rollback', ...named];
const acts: readonly Act[] = [
  { name: 'publish', settings: inPlace, command: ['run'], publishes: 'source' },
  {
    name: 'prune',
    settings: `${fixed}, workflow: additive, retention: {prune: {enabled: true, keep_latest: 2}}`,
    command: ['prune', '--apply', ...named],
  },
  { name: 'unpublish', settings: inPlace, command: ['unpublish', '.', ...named] },
  { name: 'promote', settings: inPlace, command: ['promote', 'staging', 'web'], publishes: 'staging' },
  {
    ...{ name: 'publish a release', settings: asReleases, command: ['run'], publishes: 'source' as const },
    isAlwaysWhole: true,
  },
  {
    ...{ name: 'promote to a release', settings: asReleases, command: ['promote', 'staging', 'web'] },
    ...{ publishes: 'staging' as const, isAlwaysWhole: true },
  },
  { name: 'roll back', settings: asReleases, command: rollback, isAlwaysWhole: true },
  {
    ...{ name: 'resume', settings: asReleases, after: rollback, isAlwaysWhole: true },
    command: ['releases', 'resume', ...named],
  },
  { name: 'unpublish releases', settings: asReleases, command: ['unpublish', '.', ...named] },
  {
    ...{ name: 'change the layout to releases', before: inPlace, settings: asReleases, command: ['run'] },
    publishes: 'source',
  },
  {
    ...{ name: 'change the layout to in_place', before: asReleases, settings: inPlace, command: ['run'] },
    ...{ publishes: 'source' as const, isAlwaysWhole: true },
  },
  { name: 'publish with a root index', settings: indexed, command: ['run'], publishes: 'source' },
  { name: 'unpublish with a root index', settings: indexed, command: ['unpublish', 'bundle', ...named] },
];

/** The number of kills of an act on a storage, evenly spread over its changes. */
const maxKills = isExhaustive ? 18 : 2;

/** A pipeline from one bundle to its own destination. */
class Site {
  static #made = 0;
  readonly #destination = `web-${(Site.#made += 1)}`;
  version = 0;

  constructor(
    readonly place: StoragePlace,
    readonly root: string,
  ) {
    mkdirSync(path.join(root, 'source', 'bundle'), { recursive: true });
    rmSync(path.join(root, 'staging'), { recursive: true, force: true });
  }

  configure(settings: string): void {
    const destination = this.place.settings(this.#destination, this.root);
    writeFileSync(
      path.join(this.root, 'config.yml'),
      [
        'pipelines:',
        '  - id: maps',
        '    source: {backend: local, path: ./source}',
        '    destinations:',
        `      - {id: web, ${destination}, ${settings}}`,
        '      - {id: staging, backend: local, path: ./staging, mapping: fixed, workflow: replacement}',
        '',
      ].join('\n'),
    );
  }

  /** Two files of the version, one of them with a new name, and one that never changes. */
  writeVersion(): void {
    this.version += 1;
    const bundle = path.join(this.root, 'source', 'bundle');
    const files = { 'index.html': this.version, [`only/${this.version}`]: this.version, same: 'same' };
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(bundle, name)), { recursive: true });
      writeFileSync(path.join(bundle, name), String(content));
    }
    const created = new Date(Date.parse('2026-11-20T00:00:00Z') + this.version * 1000).toISOString();
    writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify({ created, files: Object.keys(files) }));
  }

  /** The equivalent of `waybill run --destination ID` without starting a process. Returns the action. */
  async publish(destinationId = 'web'): Promise<string> {
    const { open: openStorage, secrets } = this.place;
    const { config } = await loadConfig(path.join(this.root, 'config.yml'), { home: this.root });
    const [pipeline] = config.pipelines;
    if (pipeline === undefined) throw new TypeError('the configuration has a pipeline');
    const { destinations } = await publishPipeline(
      { ...contextWith(systemClock), openStorage, secrets },
      pipeline,
      { dryRun: false, force: false, destinationIds: [destinationId] },
    );
    const failures = destinations.flatMap(({ error, actions }) => [
      error,
      ...actions.map((one) => one.error),
    ]);
    const failed = failures.find((error) => error !== null);
    if (failed !== undefined) throw new Error(`the run failed: ${failed.code} ${failed.message}`);
    return destinations.flatMap(({ actions }) => actions.map(({ action }) => action)).join();
  }

  /** Runs the program. Resolves to its signal or exit code, and its stderr. */
  async waybill(command: readonly string[], env: Record<string, string>): Promise<[string | number, string]> {
    const args = [program, ...command, '--config', path.join(this.root, 'config.yml')];
    const preload = path.resolve('test/faults/kill-at-change.mjs');
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, ...this.place.env(this.root), NODE_OPTIONS: `--import ${preload}`, ...env },
    });
    const [errors, [code, signal]] = await Promise.all([
      text(child.stderr),
      once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>,
    ]);
    return [signal ?? code ?? -1, errors];
  }

  async look<T>(at: (storage: Storage) => Promise<T>): Promise<T> {
    const { config } = await loadConfig(path.join(this.root, 'config.yml'), { home: this.root });
    const location = config.pipelines[0]?.destinations[0]?.location;
    if (location === undefined) throw new TypeError('the pipeline has a destination');
    const storage = await this.place.open(location, { readOnly: true });
    return at(storage).finally(() => storage.close());
  }
}

/** Creates the initial state for the command. */
async function siteFor(place: StoragePlace, root: string, act: Act): Promise<Site> {
  const site = new Site(place, root);
  site.configure(act.before ?? act.settings);
  for (let published = 0; published < 3; published += 1) {
    site.writeVersion();
    await site.publish();
  }
  if (act.publishes !== undefined) site.writeVersion();
  if (act.publishes === 'staging') await site.publish('staging');
  if (act.after !== undefined) await site.waybill(act.after, {});
  site.configure(act.settings);
  return site;
}

async function wrongAfterKill(site: Site, act: Act): Promise<string[]> {
  const wrong = act.isAlwaysWhole === true ? await site.look(wrongForReaders) : [];
  site.writeVersion();
  await site.publish();
  wrong.push(...(await site.look(wrongAfterRun)));
  const again = await site.publish();
  if (again !== 'skip_same') wrong.push(`another run has something to do: ${again}`);
  return [...wrong, ...(await site.place.hidden())];
}

/** The current release has the files of one version. */
async function wrongForReaders(storage: Storage): Promise<string[]> {
  const { current } = await readReleases(storage);
  if (current === null) return ['readers have nothing'];
  const files = await snapshot(subdirectory(storage, releaseKey(current)));
  const version = files.get('index.html') ?? '';
  return files.get(`only/${version}`) === version && files.get('same') === 'same'
    ? []
    : [`readers have a mixture: ${[...files].join(' ')}`];
}

async function wrongAfterRun(storage: Storage): Promise<string[]> {
  const wrong: string[] = [];
  for (const { destinationPath, differing, interrupted, unfinishedRelease, error } of await verify(storage, {
    concurrency: 4,
  }))
    if (differing.length > 0 || interrupted || unfinishedRelease !== null || error !== null)
      wrong.push(
        `verify: ${destinationPath} ${JSON.stringify({ differing, interrupted, unfinishedRelease, error })}`,
      );
  const { files, strays } = await surveyDestination(storage);
  const isPointer = (name: string): boolean => /^current(\.json)?$/.test(name);
  for (const [at, names] of files) {
    const { state } = await readState(subdirectory(storage, at));
    const recorded = state.kind === 'valid' ? state.catalog.outputs.map(({ path: name }) => name) : [];
    for (const name of names)
      if (!recorded.includes(name as (typeof recorded)[number]) && !isPointer(name))
        wrong.push(`stray: ${at}/${name}`);
  }
  wrong.push(...strays.filter((name) => !isPointer(name)).map((name) => `stray: ${name}`));
  for await (const { key } of storage.list('', { recursive: true }))
    if (/\.publisher(?!\.json$|\.releases\.json$)/.test(key) && !isProbe(key)) wrong.push(`stray: ${key}`);
  return wrong;
}

/** A later run removes the object of a killed S3 probe, once no other process can use it any more. */
function isProbe(key: string): boolean {
  return key.startsWith('.publisher.tmp/probe-');
}

async function killAct(test: Test, place: StoragePlace, act: Act): Promise<number> {
  const root = mkdtempSync(path.join(memoryDirectory(), 'waybill-killed-'));
  test.teardown(() => rmSync(root, { recursive: true, force: true }));
  const list = path.join(root, 'changes');
  const undisturbed = await siteFor(place, root, act);
  const [code, errors] = await undisturbed.waybill(act.command, { KILL_AT: '0', KILL_LIST: list });
  test.equal(code, 0, `${act.name}, without faults: ${errors}`);
  const changes = readFileSync(list, 'utf8').split('\n');
  const { readsFirst } = place;
  const eligible = changes.length - readsFirst;
  const kills = Math.min(maxKills, eligible);
  let killed = 0;
  for (let kill = 0; kill < kills; kill += 1) {
    const at = readsFirst + 1 + Math.floor(((kill + 0.5) * eligible) / kills);
    const site = await siteFor(place, root, act);
    const [ended] = await site.waybill(act.command, { KILL_AT: String(at) });
    // The number of SSH packets varies, so the program may have ended before.
    const wrong = ended === 'SIGKILL' || ended === 0 ? [] : [`it ended with ${ended}`];
    if (ended === 'SIGKILL') killed += 1;
    wrong.push(...(await wrongAfterKill(site, act).catch((error: unknown) => [String(error)])));
    test.same(wrong, [], `${act.name} on ${place.name}, killed before change ${at} of ${changes.length}`);
  }
  return killed;
}

t.setTimeout(0);
const places = { local: localPlace, SFTP: sftpPlace, S3: s3Place };
for (const [name, open] of Object.entries(places))
  t.test(`${name}: after a kill before a change, the next run repairs everything`, async (test) => {
    const place = await open(t);
    const counts: string[] = [];
    let all = 0;
    for (const act of sampleOf(acts, 1, `killed acts on ${name}`)) {
      const kills = await killAct(test, place, act);
      counts.push(`${act.name} ${kills}`);
      all += kills;
      test.comment(`${place.name}: ${act.name}, ${kills} kills`);
    }
    test.comment(`report: ${all} kills (${name}): ${counts.join(', ')}`);
  });
