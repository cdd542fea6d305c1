import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { defaultLeaseTimes } from '../../../../src/core/catalog/lease/lease.ts';
import { acquireLease } from '../../../../src/core/catalog/lease/with-lease.ts';
import { silentLog } from '../../../../src/core/lib/log.ts';
import { bytesBody, readAll } from '../../../../src/core/storage/body.ts';
import { listedKey as key } from '../../../../src/core/storage/key.ts';
import { localStorage } from '../../../../src/core/storage/local/local-storage.ts';
import { put, testClock } from '../../../faults/world.ts';

/** The obstacle below the directory of the test, the name in the message, and part of the hint. */
const obstacles: Record<string, { lay: (here: string) => void; root: string; at: string; hint: RegExp }> = {
  'a dangling link': {
    lay: (here) => symlinkSync('/nowhere/at/all', path.join(here, 'link')),
    root: 'link',
    at: 'link',
    hint: /create or mount that directory/,
  },
  'a directory below a dangling link': {
    lay: (here) => symlinkSync('gone', path.join(here, 'link')),
    root: 'link/deep/below',
    at: 'link',
    hint: /create or mount that directory/,
  },
  'a link to itself': {
    lay: (here) => symlinkSync('link', path.join(here, 'link')),
    root: 'link/deep',
    at: 'link',
    hint: /create or mount that directory/,
  },
  'a link to a file': {
    lay(here) {
      writeFileSync(path.join(here, 'file'), '');
      symlinkSync('file', path.join(here, 'link'));
    },
    root: 'link/deep',
    at: 'link',
    hint: /create or mount that directory/,
  },
  'a file': {
    lay: (here) => writeFileSync(path.join(here, 'file'), ''),
    root: 'file',
    at: 'file',
    hint: /move that file away/,
  },
  'a file above': {
    lay: (here) => writeFileSync(path.join(here, 'file'), ''),
    root: 'file/a/b',
    at: 'file',
    hint: /move that file away/,
  },
};

for (const [what, { lay, root, at, hint }] of Object.entries(obstacles))
  for (const how of ['before it is opened', 'after it was opened'] as const)
    t.test(`${what} in place of the root, ${how}: the error names it and the fix`, async (t) => {
      const here = t.testdir();
      if (how === 'before it is opened') {
        lay(here);
        for (const options of [{}, { readOnly: true }, { readOnly: true, dryRun: true }])
          await names(t, localStorage(path.join(here, root), options), path.join(here, at), hint);
        return;
      }
      const storage = await localStorage(path.join(here, root));
      lay(here);
      for (const mode of ['create', 'replace', 'scratch'] as const)
        await names(t, storage.write(key('b/x'), bytesBody('x'), { mode }), path.join(here, at), hint);
      const clock = testClock();
      const times = defaultLeaseTimes;
      const lease = acquireLease(storage, { clock, log: silentLog, attemptId: 'mine', times });
      await names(t, lease, path.join(here, at), hint);
      t.equal(clock.monotonic(), 0, 'does not wait');
    });

t.test(
  'a dangling link in place of the root can be retried, because its disk may be unmounted',
  async (t) => {
    const here = t.testdir({ disk: {}, file: '' });
    symlinkSync('disk/not-mounted', path.join(here, 'dangling'));
    symlinkSync('file', path.join(here, 'to-a-file'));
    await t.rejects(localStorage(path.join(here, 'dangling/web')), {
      code: 'storage_unavailable',
      retryable: true,
    });
    await t.rejects(localStorage(path.join(here, 'to-a-file/web')), {
      code: 'storage_permanent',
      retryable: false,
    });
    await t.rejects(localStorage(path.join(here, 'file/web')), {
      code: 'storage_permanent',
      retryable: false,
    });
  },
);

t.test('rejects roots in kernel file systems, without retrying forever', async (t) => {
  for (const view of ['/proc', '/sys']) {
    const root = path.join(view, 'nope/deep');
    await names(t, localStorage(root), path.join(view, 'nope'), /correct the path/);
    await names(t, localStorage(root, { readOnly: true, dryRun: true }), path.join(view, 'nope'), /correct/);
    t.equal(await (await localStorage(root, { readOnly: true })).stat(key('x')), undefined);
  }
});

t.test('a deleted root below a link is recreated below the link', async (t) => {
  const here = t.testdir({ real: {} });
  symlinkSync('real', path.join(here, 'link'));
  const root = path.join(here, 'link/a/b');
  const storage = await localStorage(root);
  await put(storage, 'x', 'x');
  t.ok(existsSync(path.join(here, 'real/a/b/x')));
  rmSync(path.join(here, 'real/a'), { recursive: true });
  await put(storage, 'x', 'again');
  t.equal((await readAll(storage, key('x'), 16)).toString(), 'again');
});

t.test('rejects a lock that is not a file, without waiting', async (t) => {
  const root = t.testdir();
  symlinkSync('gone', path.join(root, '.publisher.lock'));
  const clock = testClock();
  const times = defaultLeaseTimes;
  await t.rejects(
    acquireLease(await localStorage(root), { clock, log: silentLog, attemptId: 'mine', times }),
    { code: 'storage_permanent', message: /"\.publisher\.lock" is not a file/, hint: /remove it/ },
  );
});

t.test('rejects a named pipe without blocking the thread', async (t) => {
  const root = t.testdir();
  mkdirSync(path.join(root, 'b'));
  execFileSync('mkfifo', [path.join(root, 'b/pipe')]);
  await t.rejects(readAll(await localStorage(root), key('b/pipe'), 16), { code: 'storage_permanent' });
});

async function names(t: Test, work: Promise<unknown>, component: string, hint: RegExp): Promise<void> {
  await t.rejects(work, { code: /^storage_(?:permanent|unavailable)$/, message: `"${component}"`, hint });
}
