import childProcess from 'node:child_process';
import fs, { writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import t, { type Test } from 'tap';

/** The files and directories that were synced separately. */
let fsyncs = 0;
const { fsync } = fs;
fs.fsync = ((opened: number, done: fs.NoParamCallback) => {
  fsyncs += 1;
  fsync(opened, done);
}) as typeof fs.fsync;
/** The calls of `spawn`, and the program that they start. */
const spawned: { env?: object | undefined }[] = [];
let program = 'sync';
const { spawn } = childProcess;
childProcess.spawn = ((_: string, args: string[], options: childProcess.SpawnOptions) => {
  spawned.push(options);
  return spawn(program, args, options);
}) as unknown as typeof childProcess.spawn;
syncBuiltinESMExports();

// Loaded after the calls are instrumented.
const { makeDurable, syncFileSystem } = await import('../../../src/core/lib/sync.ts');

const onLinux = { skip: process.platform === 'linux' ? false : 'syncfs is a call of Linux' };

/** A directory with many files. */
function manyFiles(t: Test): { files: string[]; directory: string } {
  const directory = t.testdir();
  const files = Array.from({ length: 40 }, (_, index) => path.join(directory, `${index}`));
  for (const file of files) writeFileSync(file, 'x');
  fsyncs = 0;
  return { files, directory };
}

t.test('syncs the file system of a directory with any name', onLinux, async (t) => {
  const name = "it's a $(name)\nof two lines";
  const directory = t.testdir({ [name]: {} });
  const directories = [directory, path.join(directory, name), path.join(directory, 'missing')];
  t.same(await Promise.all(directories.map(syncFileSystem)), [true, true, false]);
});

t.test('the sync program gets no environment variable but PATH', onLinux, async (t) => {
  await syncFileSystem(t.testdir());
  t.same(Object.keys(spawned.at(-1)?.env ?? {}), ['PATH']);
});

t.test('many files become durable with one sync of their file system', onLinux, async (t) => {
  const { files, directory } = manyFiles(t);
  await makeDurable(files, [directory]);
  t.equal(fsyncs, 0);
});

t.test('without the sync program, each file and directory is synced', async (t) => {
  const { files, directory } = manyFiles(t);
  program = 'no-such-program';
  t.teardown(() => (program = 'sync'));
  await makeDurable(files, [directory]);
  t.equal(fsyncs, 41);
});
