import { spawn, spawnSync } from 'node:child_process';
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { withoutRunMark } from '../../scripts/test/leftovers.ts';

/** Times in milliseconds; tests of this file shorten them. */
export interface AptSettings {
  /** How long to wait for another apt process, e.g. unattended upgrades. */
  lockMs?: number;
  /** The time limit for updating the lists, and for downloading. */
  networkMs?: number;
  /** Called for each apt lock held by another process, with apt's message. */
  onLocked?: (output: string) => void;
  /** The file that the processes of the tests lock to take turns. */
  lockFile?: string;
  /** More environment variables for apt. */
  env?: Record<string, string>;
}

const minute = 60_000;
const defaults: Required<AptSettings> = {
  lockMs: 5 * minute,
  networkMs: 10 * minute,
  onLocked: () => undefined,
  // Not in `tmpdir()`: each test file has its own temporary directory, and this one is shared by all.
  lockFile: `/tmp/waybill-test-packages-${process.getuid?.() ?? 0}.lock`,
  env: {},
};

const quick = ['-qq', '-o', 'Acquire::http::Timeout=20', '-o', 'Acquire::https::Timeout=20'];
const options = [...quick, '-o', 'Acquire::Retries=1', '-o', 'APT::Install-Recommends=false'];

/**
 * Installs Debian packages. Returns undefined, or the reason for a failure as the end of a sentence. Test
 * processes take turns through a lock, and wait for other users of apt.
 */
export async function aptInstall(
  packages: readonly string[],
  settings: AptSettings = {},
): Promise<string | undefined> {
  const all = { ...defaults, ...settings };
  const { lockMs, networkMs } = all;
  if (spawnSync('apt-get', ['--version']).status !== 0) return 'this machine has no apt-get';
  const asRoot = privilege(all.env);
  if (asRoot === undefined) return 'only root may install packages, and sudo asks for a password';
  const steps = [
    // An old list may name files that the mirrors no longer have. A failure becomes visible in the next
    // step.
    { step: 'updating the package lists', args: ['update'], ms: networkMs },
    { step: 'downloading', args: ['install', '-y', '--download-only', ...packages], ms: networkMs },
    // No limit, because killing dpkg leaves a half-installed package.
    { step: 'installing', args: ['install', '-y', ...packages], ms: undefined },
  ];
  let warnings = '';
  for (const { step, args, ms } of steps) {
    const command = [...asRoot, 'sh', '-c', script, 'sh', 'apt-get', ...options, ...args];
    const { code, output } = await whenFree(command, ms, all);
    if (code === 'late') return `${step} took more than ${spell(ms ?? 0)}`;
    if (code !== 0 && args[0] !== 'update') return causeOf(`${warnings}\n${output}`, lockMs);
    if (code !== 0 && isLocked(output)) return causeOf(output, lockMs);
    warnings += output;
  }
  return undefined;
}

/**
 * Debian starts and enables a server when it installs it. The tests start their own servers on other ports,
 * so a policy prevents this during the installation, unless the machine already has a policy.
 */
const script = `
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ] && printf '#!/bin/sh\\nexit 101\\n' >$policy 2>/dev/null; then
  chmod 755 $policy
  trap 'rm -f $policy' EXIT
fi
"$@"
`;

/** The source of Debian packages on this machine. Throws if apt has none. */
export function debianMirror(): string {
  const format = '$(ORIGIN) $(REPO_URI)';
  const { stdout } = spawnSync('apt-get', ['indextargets', '--format', format], { encoding: 'utf8' });
  const mirrors = stdout.split('\n').flatMap((line) => /^Debian (\S+\/debian\/?)$/.exec(line)?.[1] ?? []);
  const [mirror] = mirrors;
  if (mirror === undefined) throw new Error('apt of this machine knows no mirror of Debian');
  return mirror;
}

interface Outcome {
  code: number | 'late';
  output: string;
}

/**
 * Runs apt until no other process holds its locks. apt's own `DPkg::Lock::Timeout` waits for only one of the
 * three, and does not report the holder.
 */
async function whenFree(
  command: readonly string[],
  ms: number | undefined,
  settings: Required<AptSettings>,
): Promise<Outcome> {
  const { lockMs, onLocked } = settings;
  const until = performance.now() + lockMs;
  for (;;) {
    const outcome = await inTurn(command, ms, settings);
    if (!isLocked(outcome.output)) return outcome;
    onLocked(outcome.output);
    if (performance.now() >= until) return outcome;
    await sleep(Math.min(1000, lockMs / 10));
  }
}

/** The exit code of `flock` if another test process holds the lock for longer than the timeout. */
const notOurTurn = 75;

async function inTurn(
  command: readonly string[],
  ms: number | undefined,
  { lockMs, lockFile, env }: Required<AptSettings>,
): Promise<Outcome> {
  const wait = ['-w', String(lockMs / 1000), '-E', String(notOurTurn)];
  const child = spawn('flock', [...wait, lockFile, ...command], {
    // An interrupted run ends a download, but not an installation, which would leave a half-installed
    // package.
    env: {
      ...(ms === undefined ? withoutRunMark(process.env) : process.env),
      ...{ DEBIAN_FRONTEND: 'noninteractive', LC_ALL: 'C' },
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  let [output, isLate] = ['', false];
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const timer = setTimeout(
    () => {
      isLate = true;
      process.kill(-(child.pid as number), 'SIGTERM');
    },
    ms ?? 2 ** 31 - 1,
  );
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once('error', reject).once('close', resolve),
  ).finally(() => clearTimeout(timer));
  if (isLate) return { code: 'late', output };
  return {
    code: code ?? 1,
    output: code === notOurTurn ? `${output}\nanother test run is installing` : output,
  };
}

/** The command prefix to run as root; undefined if that is impossible. */
function privilege(env: Record<string, string>): string[] | undefined {
  if (process.getuid?.() === 0 || env['APT_CONFIG'] !== undefined) return [];
  const environment = ['env', 'DEBIAN_FRONTEND=noninteractive', 'LC_ALL=C'];
  return spawnSync('sudo', ['-n', 'true']).status === 0 ? ['sudo', '-n', ...environment] : undefined;
}

function isLocked(output: string): boolean {
  return /Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock/.test(output);
}

/** The one cause in all of apt's messages. */
function causeOf(output: string, lockMs: number): string {
  if (isLocked(output)) {
    const [, pid, name] = /held by process (\d+)(?: \(([^)]*)\))?/.exec(output) ?? [];
    const holder = pid === undefined ? 'another process' : `process ${pid} (${name ?? 'unknown'})`;
    return `apt has been locked by ${holder} for more than ${spell(lockMs)}`;
  }
  const errors = [...output.matchAll(/^E: (.*)$/gm)].map(([, message = '']) => message);
  const [, unreachable] =
    /Failed to fetch \S+\s+(.*(?:resolve|connect|timed out|unreachable).*)/i.exec(output) ?? [];
  if (unreachable !== undefined && errors.every((message) => /locate|fetch|candidate/.test(message)))
    return `no package server can be reached (${unreachable.trim()})`;
  return errors.length > 0
    ? `apt says "${errors.join('; ')}"`
    : (output.trim().split('\n').at(-1) ?? 'apt failed');
}

function spell(ms: number): string {
  return ms >= minute ? `${Math.round(ms / minute)} minutes` : `${ms / 1000} seconds`;
}
