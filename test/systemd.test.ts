import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { situations } from '../src/cli/commands/publish/situations.ts';
import { systemClock } from '../src/core/lib/clock.ts';
import { program, waybill } from './cli/process.ts';
import { ensureInstalled, pathOf } from './services/debian.ts';
import { freePort } from './services/free-port.ts';

/** The units in deploy/ and those from `waybill init`, checked by systemd. */

const run = promisify(execFile);
const shipped = readdirSync('deploy/systemd').filter((name) => name.endsWith('.service'));

const analyze = async (...args: string[]): Promise<{ stdout: string; stderr: string }> =>
  run(pathOf('systemd-analyze') ?? '', args, { env: { ...process.env, SYSTEMD_COLORS: '0' } });

/** All units in one directory, with the situation in the names of those from `init`. */
function allUnits(t: Test): string[] {
  const place = t.testdir({});
  for (const name of shipped)
    writeFileSync(path.join(place, name), readFileSync(path.join('deploy/systemd', name)));
  for (const { name } of situations) {
    const args = ['init', name, '-o', `${name}.yml`, '--systemd', `init-${name}.service`];
    t.equal(waybill(args, { cwd: place }).status, 0);
  }
  const units = readdirSync(place).filter((name) => name.endsWith('.service'));
  t.equal(units.length, shipped.length + situations.length);
  return units.map((name) => path.join(place, name));
}

t.test('systemd accepts every line of the units', async (t) => {
  await ensureInstalled('systemd');
  for (const unit of allUnits(t)) {
    const command = path.join(path.dirname(unit), 'waybill');
    writeFileSync(command, '#!/bin/sh\n');
    chmodSync(command, 0o755);
    // It is not installed here, and a missing command is an error.
    const text = readFileSync(unit, 'utf8');
    t.match(text, /^ExecStart=waybill /m);
    writeFileSync(unit, text.replace('ExecStart=waybill ', `ExecStart=${command} `));
    const { stdout, stderr } = await analyze('verify', '--man=no', '--recursive-errors=no', unit);
    t.equal(stdout + stderr, '', path.basename(unit));
    const broken = `${unit.replace(/\.service$/, '')}-broken.service`;
    writeFileSync(broken, text.replace('[Service]', '[Service]\nRestrat=always'));
    t.match(await analyze('verify', '--man=no', broken).catch((error: unknown) => error), /Restrat/);
  }
});

t.test('the socket stops with the daemon, and has the address of its configuration', async (t) => {
  await ensureInstalled('systemd');
  const place = t.testdir({ waybill: '#!/bin/sh\n' });
  chmodSync(path.join(place, 'waybill'), 0o755);
  const service = readFileSync('deploy/systemd/waybill.service', 'utf8');
  writeFileSync(
    path.join(place, 'waybill.service'),
    service.replace('ExecStart=waybill ', `ExecStart=${place}/waybill `),
  );
  const socket = readFileSync('deploy/systemd/waybill.socket', 'utf8');
  writeFileSync(path.join(place, 'waybill.socket'), socket);
  const verify = ['verify', '--man=no', '--recursive-errors=yes'];
  const { stdout, stderr } = await analyze(...verify, path.join(place, 'waybill.socket'));
  t.equal(stdout + stderr, '');
  const [, address = ''] = /^ListenStream=(.*)$/m.exec(socket) ?? [];
  waybill(['init', 'uploads', '-o', 'c.yml'], { cwd: place });
  t.match(readFileSync(path.join(place, 'c.yml'), 'utf8'), `listen: ${address} `);
});

t.test('their exposure is at most 2.5 of 10', async (t) => {
  await ensureInstalled('systemd');
  for (const unit of allUnits(t)) {
    const { stdout } = await analyze('security', '--offline=true', '--threshold=25', unit);
    const [, exposure = ''] = /Overall exposure level for \S+: ([\d.]+)/.exec(stdout) ?? [];
    t.ok(Number(exposure) > 0 && Number(exposure) <= 2.5, `${path.basename(unit)}: ${exposure}`);
  }
});

t.test('restarts while a database is unreachable, but not for an invalid configuration', async (t) => {
  for (const unit of allUnits(t)) {
    const text = readFileSync(unit, 'utf8');
    for (const line of ['StartLimitIntervalSec=0', 'Restart=on-failure'])
      t.match(text, new RegExp(`^${line}$`, 'm'), `${path.basename(unit)}: ${line}`);
    const [, started = ''] = /^ExecStart=waybill (.*) --config/m.exec(text) ?? [];
    const args = [...started.split(' '), '--config', 'missing.yml'];
    const { status } = waybill(args, { cwd: path.dirname(unit) });
    t.equal(status, text.includes('\nRestartPreventExitStatus=2\n') ? 2 : 1, started);
  }
});

t.test('users and directories match those that systemd creates', async (t) => {
  await ensureInstalled('systemd');
  const root = t.testdir({});
  const users = await run(pathOf('systemd-sysusers') ?? '', [
    '--dry-run',
    `--root=${root}`,
    path.resolve('deploy/systemd/waybill.sysusers.conf'),
  ]);
  t.match(users.stdout + users.stderr, /Would create user "waybill"|Creating user '?waybill/);
  if (process.getuid?.() !== 0) return;
  await run(pathOf('systemd-tmpfiles') ?? '', [
    '--create',
    `--root=${root}`,
    path.resolve('deploy/systemd/waybill.tmpfiles.conf'),
  ]);
  t.equal(statSync(path.join(root, 'etc/waybill/secrets')).mode & 0o777, 0o700);
});

t.test('the units forbid no system call of a publishing daemon', async (t) => {
  await ensureInstalled('systemd');
  await ensureInstalled('strace');
  const place = t.testdir({ talk: { 'page.html': 'x' } });
  waybill(['init', 'uploads', '-o', 'c.yml'], { cwd: place });
  const file = path.join(place, 'c.yml');
  const port = await freePort();
  writeFileSync(file, readFileSync(file, 'utf8').replace('127.0.0.1:8080', `127.0.0.1:${port}`));
  mkdirSync(path.join(place, 'state'));
  const env = { ...process.env, WAYBILL_TOKEN: 'a-token-of-this-test-alone' };
  const calls = path.join(place, 'calls.txt');
  const traced = ['-f', '-c', '-o', calls, process.execPath, program, 'serve', '-c', 'c.yml'];
  const strace = spawn(pathOf('strace') ?? '', traced, { cwd: place, env, stdio: 'ignore' });
  const ended = once(strace, 'exit');
  t.teardown(() => strace.kill('SIGKILL'));
  const url = `http://127.0.0.1:${port}`;
  const answers = async (): Promise<boolean> =>
    (await fetch(`${url}/healthz`).catch(() => null))?.ok === true;
  while (!(await answers())) await systemClock.sleep(100);
  const push = [program, 'push', 'talk', '--to', url, '--pipeline', 'uploads'];
  await run(process.execPath, push, { cwd: place, env });
  const children = readFileSync(`/proc/${strace.pid}/task/${strace.pid}/children`, 'utf8').trim().split(' ');
  for (const child of children) process.kill(Number(child), 'SIGTERM');
  await ended;

  const made = [...readFileSync(calls, 'utf8').matchAll(/^ *[\d.]+ .* (\w+)$/gm)]
    .map(([, name = '']) => name)
    .filter((name) => name !== 'total');
  t.ok(made.length > 40 && made.includes('fsync'), `${made.length} calls`);
  const allowed = await callsIn('@system-service');
  for (const name of await callsIn('@pkey')) allowed.add(name);
  for (const name of [...(await callsIn('@privileged')), ...(await callsIn('@resources'))])
    allowed.delete(name);
  t.same(
    made.filter((name) => !allowed.has(name)),
    [],
  );
});

/** The system calls of a systemd set, including its nested sets. */
async function callsIn(set: string, found = new Set<string>()): Promise<Set<string>> {
  const { stdout } = await analyze('syscall-filter', set);
  for (const [, name = ''] of stdout.matchAll(/^ +(@?[\w-]+)$/gm))
    if (name.startsWith('@')) await callsIn(name, found);
    else found.add(name);
  return found;
}
