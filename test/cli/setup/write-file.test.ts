import { execFileSync, spawn } from 'node:child_process';
import { lstatSync, readdirSync, readFileSync, readlinkSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { writeFile } from '../../../src/cli/setup/write-file.ts';

const bytes = [Buffer.from('one '), Buffer.from('two')];

t.test('replaces a file, and leaves nothing else behind', async (t) => {
  const place = t.testdir({ file: 'old' });
  const file = path.join(place, 'file');
  t.match(await writeFile(file, bytes), { size: 7, digest: /^sha256:/ });
  t.equal(readFileSync(file, 'utf8'), 'one two');
  t.same(readdirSync(place), ['file']);
});

// Writing to /dev/null or /dev/stdout as root must not replace them for all programs.
t.test('writes to a pipe instead of replacing it', async (t) => {
  const pipe = path.join(t.testdir(), 'pipe');
  execFileSync('mkfifo', [pipe]);
  const reader = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.teardown(() => reader.kill());
  const [written, read] = await Promise.all([writeFile(pipe, bytes), text(reader.stdout)]);
  t.equal(written.size, 7);
  t.equal(read, 'one two');
  t.ok(lstatSync(pipe).isFIFO());
});

t.test('replaces the target of a link, and keeps the link', async (t) => {
  const place = t.testdir({ files: { a: 'old' } });
  const link = path.join(place, 'latest');
  symlinkSync('files/a', link);
  await writeFile(link, bytes);
  t.equal(readlinkSync(link), 'files/a');
  t.equal(readFileSync(path.join(place, 'files/a'), 'utf8'), 'one two');
});

t.test('names a file that cannot be written', async (t) => {
  const place = t.testdir({ file: 'x', directory: {} });
  for (const [name, reason] of [
    ['nowhere/x', 'its directory does not exist'],
    ['file/x', 'a part of the path is not a directory'],
    ['directory', 'it is a directory'],
  ] as const)
    await t.rejects(writeFile(path.join(place, name), bytes), {
      code: 'usage',
      message: new RegExp(`${name}" cannot be written: ${reason}$`),
    });
  t.same(readdirSync(place), ['directory', 'file']);
});
