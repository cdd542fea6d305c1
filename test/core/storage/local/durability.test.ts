import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { LocalStorage } from '../../../../src/core/storage/local/local-storage.ts';

/** Disk calls in order: `sync <path>`, `rename <from> <to>`, `remove <path>`. */
const asked: string[] = [];
watchDisk();

// Imported after the calls are instrumented.
const { processJob } = await import('../../../../src/workers/threads/publish-task.ts');
const { systemClock } = await import('../../../../src/core/lib/clock.ts');
const { parseConfig } = await import('../../../../src/core/config/load-config.ts');
const { loadSecrets } = await import('../../../../src/core/lib/secrets.ts');
const { silentLog } = await import('../../../../src/core/lib/log.ts');
const { stageUpload } = await import('../../../../src/core/bundle/stage-upload.ts');
const { bytesBody } = await import('../../../../src/core/storage/body.ts');
const { listedKey: key } = await import('../../../../src/core/storage/key.ts');
const { localStorage } = await import('../../../../src/core/storage/local/local-storage.ts');
const { storageOpener } = await import('../../../../src/core/storage/open-storage.ts');
const { bundleTar, inChunks } = await import('../../../fixtures/tar.ts');

t.test('syncs every file and directory before the steps that depend on it', async (t) => {
  const root = t.testdir({});
  const site = path.join(root, 'public');
  const yaml = `
upload_tokens: [{id: ci, value_env: CI, pipelines: [maps]}]
pipelines:
  - {id: maps, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./public, workflow: replacement, mapping: fixed}]}
`;
  await publish('one', { 'a.txt': '1', 'deep/b.txt': '1', 'gone.txt': '1' });
  asked.length = 0;
  const counters = await publish('two', { 'a.txt': '2', 'deep/b.txt': '2' });
  t.match(counters, { replace_catalog: 1, failed_destinations: 0 });

  const below = asked.filter((line) => line.includes(site)).map((line) => line.replaceAll(`${site}/`, ''));
  // Staging is renamed before it is removed, together with its kept files. None of them must be durable.
  const renames = below.filter((line) => line.startsWith('rename ') && !line.includes('.gone-'));
  t.match(
    renames.map((line) => line.split(' ')[2]),
    ['.publisher.json', 'a.txt', 'deep/b.txt', '.publisher.json'],
  );
  const intent = below.indexOf(renames[0] as string);
  const commit = below.lastIndexOf(renames[3] as string);
  for (const line of renames) {
    const [, from] = line.split(' ') as [string, string];
    t.ok(below.slice(0, below.indexOf(line)).includes(`sync ${from}`), `the bytes before: ${line}`);
  }
  const isBetween = (line: string, after: number, before: number): boolean =>
    below.slice(after, before).includes(line);
  const firstOutput = below.indexOf(renames[1] as string);
  const lastOutput = below.indexOf(renames[2] as string);
  t.ok(isBetween(`sync ${site}`, intent, firstOutput), 'the intent before any visible change');
  t.ok(below.indexOf('remove gone.txt') > lastOutput, 'an old output is removed after the new ones exist');
  for (const directory of [site, 'deep']) {
    t.ok(
      isBetween(`sync ${directory}`, lastOutput, commit),
      `files in ${directory} before the commit record`,
    );
    t.ok(
      isBetween(`sync ${directory}`, lastOutput, below.indexOf('remove gone.txt')),
      `files in ${directory} before any removal`,
    );
  }
  t.ok(isBetween(`sync ${site}`, commit, below.indexOf('remove .publisher.lock')), 'and the commit last');

  asked.length = 0;
  const added = { 'a.txt': '2', 'deep/b.txt': '2', 'new/c.txt': '3', 'new/er/d.txt': '3' };
  t.match(await publish('three', added), { replace_catalog: 1, failed_destinations: 0 });
  const third = asked.filter((line) => line.includes(site)).map((line) => line.replaceAll(`${site}/`, ''));
  const move = third.find((line) => line.endsWith(' new')) as string;
  const [, staged] = move.split(' ') as [string, string];
  for (const name of ['c.txt', 'er/d.txt', 'er'])
    t.ok(third.slice(0, third.indexOf(move)).includes(`sync ${staged}/${name}`), `${name} before: ${move}`);
  t.ok(third.slice(0, third.indexOf(move)).includes(`sync ${staged}`), `all names in it before: ${move}`);
  const commits = third.findLastIndex((line) => line.endsWith(' .publisher.json'));
  t.ok(
    third.slice(third.indexOf(move), commits).includes(`sync ${site}`),
    'the name of a directory that moved whole, before the commit',
  );
  t.notOk(
    third.some((line) => line.startsWith('rename ') && line.includes('c.txt')),
    'in one step',
  );

  async function publish(name: string, files: Record<string, string>): Promise<object> {
    const { config } = parseConfig(Buffer.from(yaml), path.join(root, 'waybill.yaml'), { home: root });
    const secrets = await loadSecrets({ directory: null, env: {} });
    const openStorage = storageOpener({ clock: systemClock, log: silentLog, secrets });
    const directory = path.join(root, name);
    await stageUpload({
      input: inChunks(bundleTar(files, { name })),
      directory,
      limits: { maxUploadSize: 2 ** 20, maxFiles: 10 },
      signal: new AbortController().signal,
    });
    const context = { clock: systemClock, log: silentLog, secrets, openStorage, notify: () => undefined };
    const job = { runId: `maps.${name}`, pipelineId: 'maps', staged: directory, bundlePath: name };
    return (await processJob(job, config, context, { dryRun: false, onProgress: () => undefined })).run
      .counters;
  }
});

/** A storage with the files `one` and `two`, and a staged file. The calls are recorded from here on. */
async function filled(t: Test): Promise<LocalStorage> {
  const storage = await localStorage(t.testdir({ one: '1', two: '2' }));
  t.teardown(() => storage.close());
  await storage.write(key('.publisher.tmp/x/next'), bytesBody('next'), { mode: 'scratch' });
  asked.length = 0;
  return storage;
}

const callsIn = (t: Test): string[] => asked.map((line) => line.replaceAll(t.testdirName, 'root'));

t.test('concurrent removals all wait for an earlier rename to be durable', async (t) => {
  const storage = await filled(t);
  await storage.rename([{ from: key('.publisher.tmp/x/next'), to: key('intent') }]);
  await Promise.all([storage.remove(key('one')), storage.remove(key('two'))]);
  const calls = callsIn(t);
  const synced = calls.lastIndexOf('sync root');
  t.ok(synced > calls.findIndex((line) => line.endsWith(' root/intent')), 'the rename is synced');
  t.same(calls.slice(synced + 1), ['remove root/one', 'remove root/two']);
});

t.test(
  'removals, and new directories on the way to a file, are durable before the next rename',
  async (t) => {
    const storage = await filled(t);
    await storage.remove(key('one'));
    await storage.rename([{ from: key('.publisher.tmp/x/next'), to: key('new/er/file') }]);
    await storage.write(key('.publisher.tmp/x/last'), bytesBody('last'), { mode: 'scratch' });
    await storage.rename([{ from: key('.publisher.tmp/x/last'), to: key('commit') }]);
    const calls = callsIn(t);
    const [first, last] = ['root/new/er/file', 'root/commit'].map((to) =>
      calls.findIndex((line) => line.startsWith('rename ') && line.endsWith(` ${to}`)),
    ) as [number, number];
    t.ok(calls.slice(0, first).includes('sync root'), 'the removal');
    for (const directory of ['root', 'root/new', 'root/new/er'])
      t.ok(calls.slice(first, last).includes(`sync ${directory}`), `the names in ${directory}`);
  },
);

t.test('a lock has its content before it gets its name', async (t) => {
  const storage = await filled(t);
  await storage.write(key('lock'), bytesBody('holder'), { mode: 'create' });
  t.match(callsIn(t)[0], /^sync root\/\.publisher\.tmp\/write-/);
});

function watchDisk(): void {
  const paths = new Map<number, string>();
  const { openSync, fsync, fsyncSync, renameSync, unlinkSync } = fs;
  fs.openSync = (file, flags, mode) => {
    const opened = openSync(file, flags, mode);
    paths.set(opened, plain(file));
    return opened;
  };
  const synced = (opened: number): void => void asked.push(`sync ${paths.get(opened) ?? opened}`);
  fs.fsyncSync = (opened) => {
    fsyncSync(opened);
    synced(opened);
  };
  fs.fsync = ((opened: number, done: fs.NoParamCallback) =>
    fsync(opened, (error) => {
      synced(opened);
      done(error);
    })) as typeof fs.fsync;
  fs.renameSync = (from, to) => {
    asked.push(`rename ${plain(from)} ${plain(to)}`);
    renameSync(from, to);
  };
  fs.unlinkSync = (file) => {
    asked.push(`remove ${plain(file)}`);
    unlinkSync(file);
  };
  syncBuiltinESMExports();
}

/** The path behind a path through an open directory. */
function plain(file: fs.PathLike): string {
  const [, directory, rest] = /^(\/proc\/\d+\/fd\/\d+)(.*)$/s.exec(String(file)) ?? [];
  return directory === undefined ? String(file) : `${fs.readlinkSync(directory)}${rest}`;
}
