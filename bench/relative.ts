/**
 * Looks for regressions by comparing this commit with the last release. Both are built here and take turns.
 * There are no goals, because results vary by a few percent anyway. Environment: BENCH_BASE, the commit or
 * tag to compare with. By default, this is the last tag `v*` or, if there is none, the newest commit that is
 * at least a day old. WAYBILL_BENCH_ROUNDS (5).
 */
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeBundle } from './bundle-files.ts';
import { compare, type Contender, type Summary } from './measure.ts';

interface Work {
  name: string;
  /** The arguments after the name of the program. */
  args: readonly string[];
  before?: () => void;
}

/** Always returns true, because there are no goals. */
export async function relative(): Promise<boolean> {
  const base = baseOf();
  if (base === undefined) {
    console.log('no earlier commit is here to compare with (a shallow clone?)');
    return true;
  }
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  const earlier = path.join(root, 'earlier');
  try {
    git('worktree', 'add', '--detach', earlier, base);
    build(earlier);
    run('.', 'node', ['scripts/build-if-stale.mjs']);
    const works = [start(), ...publications(root)];
    const rows = works.map((work) => rowOf(work, earlier));
    console.log(`\nthis commit (${describe('HEAD')}) compared with ${describe(base)}: below 1 is faster\n`);
    const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
    console.log(line(['', 'time', 'of processors', 'memory', 'now']));
    console.log(line(['---', '---:', '---:', '---:', '---:']));
    for (const row of rows) console.log(line(row));
  } finally {
    spawnSync('git', ['worktree', 'remove', '--force', earlier]);
    rmSync(root, { recursive: true, force: true });
  }
  return true;
}

function rowOf({ name, args, before }: Work, earlier: string): string[] {
  const contender = (directory: string): Contender => ({
    name: directory,
    command: [process.execPath, path.join(directory, 'dist/cli/main.js'), ...args],
    ...(before && { before }),
  });
  const [now, then] = compare([contender('.'), contender(earlier)]) as [Summary, Summary];
  const times = (of: (one: Summary) => number): string => `${(of(now) / of(then)).toFixed(2)} ×`;
  return [
    name,
    times(({ seconds }) => seconds),
    times(({ cpuSeconds }) => cpuSeconds),
    times(({ peakMiB }) => peakMiB),
    `${now.seconds.toFixed(3)} s, ${now.peakMiB.toFixed(0)} MiB`,
  ];
}

function start(): Work {
  return { name: 'start: `waybill --help`', args: ['--help'] };
}

/**
 * Returns what to publish: a bundle of many small files, and one of a few large files. Each is published once
 * as new, and once unchanged.
 */
function publications(root: string): Work[] {
  const sizes = [
    { count: 2_000, size: 8 << 10, title: '2,000 files of 8 KiB' },
    { count: 4, size: 64 << 20, title: '4 files of 64 MiB' },
  ];
  return sizes.flatMap(({ count, size, title }) => {
    const place = path.join(root, `files-${count}`);
    writeBundle(path.join(place, 'source', 'bundle'), count, size);
    const config = path.join(place, 'waybill.yaml');
    writeFileSync(
      config,
      'pipelines: [{id: bench, source: {backend: local, path: ./source}, destinations: [{id: out, backend: local, path: ./out}]}]\n',
    );
    const clear = (): void => {
      rmSync(path.join(place, 'out'), { recursive: true, force: true });
      mkdirSync(path.join(place, 'out'));
      spawnSync('sync');
    };
    const args = ['run', '--config', config];
    return [
      { name: `${title}, new`, args, before: clear },
      { name: `${title}, nothing to do`, args },
    ];
  });
}

/** Returns undefined if the history of this clone is too short. */
function baseOf(): string | undefined {
  const asked = process.env['BENCH_BASE'];
  if (asked !== undefined) return git('rev-parse', '--verify', `${asked}^{commit}`);
  const tag = spawnSync('git', ['describe', '--tags', '--abbrev=0', '--match', 'v*', 'HEAD'], {
    encoding: 'utf8',
  });
  if (tag.status === 0) return tag.stdout.trim();
  return git('rev-list', '-1', '--before=1 day ago', 'HEAD') || undefined;
}

function describe(commit: string): string {
  return git('log', '-1', '--format=%h of %cs', commit);
}

function build(directory: string): void {
  const lock = (of: string): string => readFileSync(path.join(of, 'package-lock.json'), 'utf8');
  // If the dependencies are the same, use the packages that are installed here.
  if (lock('.') === lock(directory))
    symlinkSync(path.resolve('node_modules'), path.join(directory, 'node_modules'));
  else run(directory, 'npm', ['ci', '--no-fund', '--no-audit', '--prefer-offline']);
  run(directory, 'npm', ['run', 'build']);
  if (!existsSync(path.join(directory, 'dist/cli/main.js'))) throw new Error(`${directory} was not built`);
}

function git(...args: string[]): string {
  return run('.', 'git', args).trim();
}

function run(cwd: string, command: string, args: readonly string[]): string {
  const { status, error, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  if (error !== undefined) throw error;
  if (status !== 0)
    throw new Error(`${[command, ...args].join(' ')} ended with ${status}\n${stdout}${stderr}`);
  return stdout;
}
