import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import t, { type Test } from 'tap';
import { discoverBundles, loadBundle } from '../../src/core/bundle/discover.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { followLinks } from '../../src/core/storage/wrappers/follow-links.ts';
import { nameExchanger } from '../support/exchange-names.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { type Case, walkCases } from '../support/sampling.ts';
import { scenarios } from './scenarios.ts';
import { bundlePath, contextWith, destinationOf, owner, testClock } from './world.ts';

/*
 * Another user of the machine can write to a root. At each file system call, this user replaces a directory
 * by a symbolic link to a directory outside with the same names, and either leaves it or restores the
 * directory after the call. Nothing outside may be written, read or removed.
 */

const calls = [
  'openSync',
  'lstatSync',
  'statSync',
  'chmodSync',
  'readdirSync',
  'mkdirSync',
  'rmdirSync',
  'unlinkSync',
  'renameSync',
  'linkSync',
  'symlinkSync',
  'readlinkSync',
  'accessSync',
  'statfsSync',
] as const;
type Call = (typeof calls)[number];

/** Bytes that only exist outside. */
const secret = 'private bytes of another user';
const plainFs = { ...fs };

/** Called around each call of the file system; null while no case runs. */
let around: ((call: Call, file: string, work: () => unknown) => unknown) | null = null;
watchCalls();
let places = 0;

const base = fs.mkdtempSync(path.join(memoryDirectory(), 'waybill-exchange-'));
t.teardown(() => fs.rmSync(base, { recursive: true, force: true }));
const exchanger = await nameExchanger(base);
t.teardown(() => exchanger.close());

interface Action {
  name: string;
  prepare(place: Place): Promise<unknown>;
  work(place: Place): Promise<unknown>;
}

/** Below `inside` are the roots, `source` and `destination`. */
interface Place {
  inside: string;
  outside: string;
  destination: Storage;
  source: Storage;
}

const walked = ['publish_new', 'replace_catalog', 'force_replace of unmanaged content', 'prune', 'unpublish'];
const actions: Action[] = scenarios
  .filter(({ action }) => walked.includes(action))
  .map((scenario) => ({
    name: scenario.action,
    prepare: async ({ destination }) => scenario.prepare(destination),
    work: async ({ destination }) => scenario.work(destination),
  }));
actions.push({
  name: 'publish a directory',
  prepare: async ({ inside }) => {
    const bundle = path.join(inside, 'source/bundle');
    fs.mkdirSync(path.join(bundle, 'deep/er'), { recursive: true });
    const files = ['a.txt', 'deep/b.txt', 'deep/er/large.bin'];
    const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files };
    fs.writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify(manifest));
    for (const name of files)
      fs.writeFileSync(
        path.join(bundle, name),
        name.endsWith('bin') ? Buffer.alloc(70_000) : secret.toUpperCase(),
      );
  },
  work: publishDirectory,
});
actions.push({
  name: 'publish a directory with followed links',
  prepare: async ({ inside }) => {
    const bundle = path.join(inside, 'source/bundle');
    fs.mkdirSync(bundle, { recursive: true });
    fs.mkdirSync(path.join(inside, 'source/.shared/deep'), { recursive: true });
    for (const name of ['a.txt', 'deep/b.txt'])
      fs.writeFileSync(path.join(inside, 'source/.shared', name), secret.toUpperCase());
    plainFs.symlinkSync('../.shared/a.txt', path.join(bundle, 'a.txt'));
    plainFs.symlinkSync('../.shared/deep', path.join(bundle, 'deep'));
    const manifest = { schema_version: 1, created: '2026-11-20T00:00:00Z', files: ['a.txt', 'deep/b.txt'] };
    fs.writeFileSync(path.join(bundle, 'manifest.json'), JSON.stringify(manifest));
  },
  work: async (place) => {
    const open = async (): Promise<never> => Promise.reject(new Error('no link leads outside'));
    const root = path.join(place.inside, 'source');
    const source = followLinks(place.source, { root, linksTo: [], open });
    await publishDirectory({ ...place, source });
  },
});
actions.push({
  name: 'fix modes',
  prepare: async ({ inside }) => {
    const deep = path.join(inside, 'destination/old/deep');
    fs.mkdirSync(deep, { recursive: true });
    for (const name of ['../a', 'b']) fs.writeFileSync(path.join(deep, name), secret.toUpperCase());
    for (const name of ['..', '.', '../a', 'b']) fs.chmodSync(path.join(deep, name), 0o777);
  },
  work: async ({ destination }) => {
    const files = new Map(['old/a', 'old/deep/b'].map((name) => [listedKey(name), secret.length]));
    const directories = ['old', 'old/deep'].map(listedKey);
    await destination.fixModes?.({ files, directories }, { dryRun: false });
  },
});
actions.push({
  name: 'removeTree',
  prepare: async ({ inside }) => {
    const deep = path.join(inside, 'destination/old/deep/er');
    fs.mkdirSync(deep, { recursive: true });
    for (const name of ['../../a', '../b', 'c']) fs.writeFileSync(path.join(deep, name), name);
  },
  work: ({ destination }) => destination.removeTree('old' as never),
});

async function publishDirectory({ source, destination }: Place): Promise<void> {
  const { candidates } = await discoverBundles(source);
  for (const candidate of candidates) {
    const bundle = await loadBundle(source, candidate, { backend: 'local', id: '/source' });
    await publishBundle(
      contextWith(testClock()),
      destination,
      { bundle, owner, destination: destinationOf('replacement'), destinationPath: bundlePath },
      { dryRun: false, force: false },
    );
  }
}

t.test('a directory replaced by a link during any call never leads outside', async (t) => {
  const cases: Case[] = [];
  // One action at a time, because the calls of all are instrumented at the same place.
  for (const action of actions) cases.push(...(await casesOf(t, action)));
  await walkCases(t, cases, { what: 'exchanges' });
});

async function newPlace(action: Action): Promise<Place> {
  const place = path.join(base, `${(places += 1)}`);
  const [inside, outside] = [path.join(place, 'inside'), path.join(place, 'outside')];
  for (const directory of ['source', 'destination'])
    fs.mkdirSync(path.join(inside, directory), { recursive: true });
  const destination = await localStorage(path.join(inside, 'destination'));
  const source = await localStorage(path.join(inside, 'source'), { readOnly: true });
  const made = { inside, outside, destination, source };
  await action.prepare(made);
  return made;
}

/** Runs `work`, and ignores its failure. */
async function run(action: Action, place: Place, each: NonNullable<typeof around>): Promise<void> {
  around = each;
  try {
    await action.work(place).catch(() => undefined);
    await Promise.all([place.destination.close(), place.source.close()]);
  } finally {
    around = null;
  }
}

/** One case for each call, each directory that exists at that time, and both continuations. */
async function casesOf(t: Test, action: Action): Promise<Case[]> {
  const place = await newPlace(action);
  const cases: Case[] = [];
  let count = 0;
  await run(action, place, (call, file, work) => {
    if (!plain(file).startsWith(place.inside)) return work();
    const at = (count += 1);
    for (const directory of directoriesBelow(place.inside))
      for (const isPutBack of [true, false])
        cases.push({
          name: `${action.name}, call ${at} (${call}), ${directory}${isPutBack ? ', put back' : ''}`,
          stratum: `${action.name}, ${call}`,
          run: () => wrongAfter(action, { at, directory, isPutBack }),
        });
    return work();
  });
  t.ok(cases.length > 0, `${action.name}: ${count} calls`);
  return cases;
}

async function wrongAfter(
  action: Action,
  { at, directory, isPutBack }: { at: number; directory: string; isPutBack: boolean },
): Promise<string[]> {
  const place = await newPlace(action);
  const trap = path.join(place.outside, 'trap');
  const target = path.join(place.inside, directory);
  let before: string[] = [];
  let count = 0;
  await run(action, place, (_call, file, work) => {
    if (!plain(file).startsWith(place.inside)) return work();
    count += 1;
    if (count !== at) return work();
    before = layTrap(target, place.outside, trap);
    exchanger.exchange(target, trap);
    try {
      return work();
    } finally {
      if (isPutBack) exchanger.exchange(target, trap);
    }
  });
  const after = before.length === 0 ? [] : looked(path.join(place.outside, 'mirror'));
  const wrong = JSON.stringify(after) === JSON.stringify(before) ? [] : differences(before, after);
  for (const file of filesBelow(place.inside))
    if (plainFs.readFileSync(file, 'utf8').includes(secret)) wrong.push(`${file} has bytes from outside`);
  plainFs.rmSync(path.dirname(place.inside), { recursive: true });
  return wrong;
}

/** Creates a directory with the names of `target`, and a link to it. Returns its state. */
function layTrap(target: string, outside: string, trap: string): string[] {
  const mirror = path.join(outside, 'mirror');
  plainFs.mkdirSync(mirror, { recursive: true, mode: 0o700 });
  for (const directory of directoriesBelow(target))
    plainFs.mkdirSync(path.join(mirror, directory), { mode: 0o700 });
  for (const file of filesBelow(target))
    plainFs.writeFileSync(path.join(mirror, path.relative(target, file)), secret, { mode: 0o600 });
  plainFs.symlinkSync(mirror, trap);
  for (const each of [
    mirror,
    ...directoriesBelow(mirror).map((name) => path.join(mirror, name)),
    ...filesBelow(mirror),
  ])
    plainFs.utimesSync(each, 0, new Date());
  return looked(mirror);
}

/**
 * Names, access times and modification times, taken before reading the directories, which changes their
 * access times.
 */
function looked(mirror: string): string[] {
  const lookAt = (file: string): string => {
    const { ino, mode, size, mtimeMs, atimeMs, nlink } = plainFs.lstatSync(file);
    return `${path.relative(mirror, file)} ${[ino, mode, size, mtimeMs, atimeMs, nlink].join(' ')}`;
  };
  const found = [lookAt(mirror)];
  const visit = (directory: string): void => {
    const entries = plainFs.readdirSync(directory, { withFileTypes: true });
    for (const entry of entries) {
      const file = path.join(directory, entry.name);
      found.push(lookAt(file));
      if (entry.isDirectory()) visit(file);
    }
    plainFs.utimesSync(directory, 0, plainFs.lstatSync(directory).mtime);
  };
  visit(mirror);
  return found.sort();
}

function differences(before: readonly string[], after: readonly string[]): string[] {
  return [
    ...before.filter((line) => !after.includes(line)).map((line) => `outside no more: ${line}`),
    ...after.filter((line) => !before.includes(line)).map((line) => `outside now: ${line}`),
  ];
}

/** Relative to `root`, without the roots of the storages. Parents come first. */
function directoriesBelow(root: string): string[] {
  return entriesBelow(root)
    .filter((entry) => entry.isDirectory())
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((name) => name !== 'source' && name !== 'destination');
}

function filesBelow(root: string): string[] {
  return entriesBelow(root)
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));
}

function entriesBelow(directory: string): fs.Dirent[] {
  return plainFs
    .readdirSync(directory, { withFileTypes: true })
    .flatMap((entry) =>
      entry.isDirectory() ? [entry, ...entriesBelow(path.join(directory, entry.name))] : [entry],
    );
}

/** The path behind a path through an open directory. */
function plain(file: string): string {
  const [, directory, rest] = /^(\/proc\/\d+\/fd\/\d+)(.*)$/s.exec(file) ?? [];
  return directory === undefined ? file : `${plainFs.readlinkSync(directory)}${rest}`;
}

function watchCalls(): void {
  const holder = fs as unknown as Record<Call, (...args: unknown[]) => unknown>;
  for (const call of calls) {
    const original = holder[call];
    holder[call] = (...args) => {
      const [file] = args;
      const work = (): unknown => original.apply(fs, args);
      if (around === null || typeof file !== 'string') return work();
      return around(call, file, work);
    };
  }
  syncBuiltinESMExports();
}
