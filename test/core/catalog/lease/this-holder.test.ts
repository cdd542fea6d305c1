import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { buildSync } from 'esbuild';
import t, { type Test } from 'tap';
import type { Holder } from '../../../../src/core/catalog/catalog.ts';
import {
  isKnownDead,
  markDead,
  newHolder,
  startTimeIn,
} from '../../../../src/core/catalog/lease/this-holder.ts';
import { ensureInstalled } from '../../../services/debian.ts';
import { withOwnMounts } from '../../../services/mount-namespace.ts';

/** Field 22 of proc_pid_stat(5). */
function startTimeOf(pid: number): string {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

const retired = newHolder();
markDead(retired);
const [namespace = '', startTime = ''] = retired.process?.split(' ') ?? [];
const [tid = '', threadStart = ''] = retired.thread?.split(' ') ?? [];

t.test('identifies a holder by host, boot, pid namespace, process and thread', async (t) => {
  t.equal(retired.pid, process.pid);
  t.equal(retired.bootId, readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
  t.match(namespace, /^pid:\[\d+\]$/);
  t.equal(startTime, startTimeOf(process.pid));
  t.equal(tid, String(process.pid), 'the main thread');
  t.equal(threadStart, startTime);
  t.not(newHolder().instanceId, newHolder().instanceId, 'two attempts are two holders');
});

t.test('a holder of this thread is dead once it is retired', async (t) => {
  const [one, other] = [newHolder(), newHolder()];
  t.same([isKnownDead(one), isKnownDead(other)], [false, false]);
  markDead(one);
  t.same([isKnownDead(one), isKnownDead(other)], [true, false]);
  markDead(other);
});

t.test('a holder on another host is not known to be dead', async (t) => {
  const parent = process.ppid;
  for (const [what, changed] of Object.entries<Partial<Holder>>({
    'another host': { host: 'another' },
    'a boot that is not known': { bootId: null },
    'another boot': { bootId: 'another' },
    'a process that is not known': { process: null },
    'another pid namespace': { process: `pid:[1] ${startTime}` },
    'no start time and another namespace': { process: 'pid:[1]' },
    'another thread of this process': { instanceId: '4711-theirs' },
    'a process that lives': {
      pid: parent,
      process: `${namespace} ${startTimeOf(parent)}`,
      thread: `${parent} ${startTimeOf(parent)}`,
    },
  })) {
    const holder = { ...retired, ...changed };
    t.equal(isKnownDead(holder), false, what);
    const gone = { pid: 2 ** 30 };
    const isElsewhere = /host|boot|namespace|is not known/.test(what);
    if (isElsewhere) t.equal(isKnownDead({ ...holder, ...gone }), false, `${what}, with any pid`);
  }
});

t.test('a holder is dead if its process or thread has ended', async (t) => {
  const active = newHolder();
  for (const [what, changed] of Object.entries<Partial<Holder>>({
    'the pid is free': { pid: 2 ** 30 },
    'the pid belongs to a later process': { process: `${namespace} 1` },
    'the thread has ended': { thread: `${2 ** 30} ${threadStart}` },
    'the thread id belongs to a later thread': { thread: `${tid} 1` },
  }))
    t.equal(isKnownDead({ ...active, ...changed }), true, what);
  t.equal(isKnownDead({ ...active, thread: null }), false, 'nothing is known about an unknown thread');
  markDead(active);
  t.equal(isKnownDead({ ...active, thread: null }), true);
});

t.test(
  'a holder in a process that is hidden from this user is not known to be dead',
  { skip: process.geteuid?.() === 0 ? false : 'only root can hide processes' },
  async (t) => {
    const file = fileForAll(t, 'src/core/catalog/lease/this-holder.ts');
    const hidden = newHolder();
    t.teardown(() => markDead(hidden));
    const script = `
      const { isKnownDead } = await import(process.argv[1]);
      console.log([${JSON.stringify(hidden)}, ${JSON.stringify({ ...hidden, pid: 2 ** 30 })}].map(isKnownDead).join());`;
    const inside =
      'mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=54321 --regid=54321 --clear-groups "$0" --input-type=module --eval "$1" "$2"';
    await ensureInstalled('mount', 'namespaces');
    const [unshare = '', ...options] = withOwnMounts();
    const command = [...options, 'sh', '-c', inside, process.execPath, script, file];
    const env = { PATH: process.env['PATH'] ?? '' };
    const { stdout, stderr } = spawnSync(unshare, command, { encoding: 'utf8', env });
    t.equal(stdout, 'false,true\n', stderr);
  },
);

/** Returns a bundled copy of a module that every user may read. */
function fileForAll(t: Pick<Test, 'teardown'>, entry: string): string {
  const place = mkdtempSync(path.join(tmpdir(), 'waybill-module-'));
  t.teardown(() => rmSync(place, { recursive: true, force: true }));
  chmodSync(place, 0o755);
  const outfile = path.join(place, 'module.mjs');
  buildSync({ entryPoints: [entry], bundle: true, platform: 'node', format: 'esm', outfile });
  return outfile;
}

t.test('a zombie counts as ended, and program names may contain parentheses', async (t) => {
  const stat = (name: string, state: string): string =>
    `7 (${name}) ${[state, ...Array.from({ length: 30 }, (_, at) => 4 + at)].join(' ')}\n`;
  for (const name of ['node', 'a (b) Z 1', ') Z']) {
    for (const state of ['R', 'S', 'D', 'T', 't', 'I'])
      t.equal(startTimeIn(stat(name, state)), '22', `${name} in state ${state}`);
    for (const state of ['Z', 'X']) t.equal(startTimeIn(stat(name, state)), null, state);
  }
  t.equal(startTimeIn('7 (node) R 1'), null, 'nothing known');
});
