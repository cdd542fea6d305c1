import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { findWeaknesses } from '../../../src/core/lib/unsafe-path.ts';

/** Owners and modes of real directories, checked for root and for other users. */

const isRoot = process.geteuid?.() === 0;
const options = { skip: isRoot ? false : 'only root can give files to other users' };
/** No account has these numbers. Otherwise, the groups would not be private. */
const [alice, bob] = [54_321, 54_322];
/** `/etc/passwd` of Debian has a user with this primary group. */
const webServer = 33;

/** A directory below the sticky `/tmp` that only root can change. */
function place(t: Test): string {
  const made = mkdtempSync(path.join(tmpdir(), 'waybill-unsafe-'));
  t.teardown(() => rmSync(made, { recursive: true, force: true }));
  chmodSync(made, 0o755);
  return made;
}

function directory(name: string, mode: number, { uid = 0, gid = 0 } = {}): string {
  mkdirSync(name);
  chmodSync(name, mode);
  chownSync(name, uid, gid);
  return name;
}

const kinds = (target: string): string[] => findWeaknesses(target).map(({ kind }) => kind);

function as<T>(uid: number, work: () => T): T {
  process.seteuid?.(uid);
  try {
    return work();
  } finally {
    process.seteuid?.(0);
  }
}

t.test('accepts a directory of this user in a sticky directory, and a missing one', options, (t) => {
  const made = place(t);
  t.same(kinds(made), []);
  t.same(kinds(path.join(made, 'missing', 'deeper')), []);
  t.same(kinds(path.join(tmpdir(), 'waybill-is-missing')), []);
  t.end();
});

t.test('names the entry that every user can write to, and the command that fixes it', options, (t) => {
  const made = place(t);
  const open = directory(path.join(made, "it's open"), 0o777);
  directory(path.join(open, 'inside'), 0o700);
  const [found, ...others] = findWeaknesses(path.join(open, 'inside'));
  t.same(others, []);
  t.match(found, { path: open, kind: 'everyone', found: 'can be written by every user (mode 0777)' });
  execFileSync('sh', ['-c', found?.remedy ?? 'false']);
  t.same(kinds(path.join(open, 'inside')), []);
  t.end();
});

t.test('a sticky directory may be a parent, but cannot be used itself', options, (t) => {
  const sticky = directory(path.join(place(t), 'sticky'), 0o1777);
  t.same(kinds(sticky), ['everyone']);
  const foreign = directory(path.join(sticky, 'foreign'), 0o755, { uid: bob });
  t.same(kinds(foreign), ['owner']);
  t.same(kinds(directory(path.join(sticky, 'own'), 0o755)), []);
  t.end();
});

t.test('checks the target of a link, and who can replace the link', options, (t) => {
  const made = place(t);
  const open = directory(path.join(made, 'open'), 0o777);
  directory(path.join(open, 'inside'), 0o755);
  symlinkSync('open/../open/inside', path.join(made, 'link'));
  t.match(findWeaknesses(path.join(made, 'link')), [{ path: open, kind: 'everyone' }]);
  const sticky = directory(path.join(made, 'sticky'), 0o1777);
  const own = directory(path.join(made, 'own'), 0o755);
  symlinkSync(own, path.join(sticky, 'link'));
  t.same(kinds(path.join(sticky, 'link')), []);
  lchownSync(path.join(sticky, 'link'), bob, bob);
  t.match(findWeaknesses(path.join(sticky, 'link')), [{ path: path.join(sticky, 'link'), kind: 'owner' }]);
  symlinkSync('round', path.join(made, 'round'));
  t.same(kinds(path.join(made, 'round')), [], 'a link to itself');
  t.end();
});

t.test('accepts write permission for a group of one user, and for no other group', options, (t) => {
  const made = place(t);
  t.same(kinds(directory(path.join(made, 'own'), 0o2775, { gid: alice })), []);
  const shared = directory(path.join(made, 'shared'), 0o775, { gid: webServer });
  const [found] = findWeaknesses(shared);
  t.match(found, { path: shared, kind: 'group', found: 'can be written by the group www-data (mode 0775)' });
  execFileSync('sh', ['-c', found?.remedy ?? 'false']);
  t.same(kinds(shared), []);
  t.end();
});

t.test('trusts root and the user of the process, and no other user', options, (t) => {
  const made = place(t);
  const ofAlice = directory(path.join(made, 'alice'), 0o775, { uid: alice, gid: alice });
  directory(path.join(ofAlice, 'inside'), 0o755);
  t.same(
    as(alice, () => kinds(path.join(ofAlice, 'inside'))),
    [],
  );
  const [found] = as(bob, () => findWeaknesses(path.join(ofAlice, 'inside')));
  t.match(found, {
    path: ofAlice,
    found: `belongs to user ${alice}, and waybill runs as user ${bob}`,
    remedy: `sudo chown ${bob} ${ofAlice}`,
  });
  t.match(findWeaknesses(ofAlice), [{ kind: 'owner', remedy: `chown root ${ofAlice}` }]);
  t.same(findWeaknesses(ofAlice, String(alice)), [], 'the user who called sudo');
  t.same(
    as(bob, () => findWeaknesses(ofAlice, String(alice)).length),
    1,
    'only root believes SUDO_UID',
  );
  t.end();
});

t.test('accepts any mode on a file system that is mounted read-only', options, (t) => {
  const made = place(t);
  const mounted = directory(path.join(made, 'mounted'), 0o755);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'ro,mode=1777', 'none', mounted], { stdio: 'ignore' });
  } catch {
    t.pass('nothing can be mounted here');
    t.end();
    return;
  }
  const found = kinds(mounted);
  execFileSync('mount', ['-o', 'remount,rw', mounted]);
  const writable = kinds(mounted);
  execFileSync('umount', [mounted]);
  t.same([found, writable], [[], ['everyone']]);
  t.end();
});
