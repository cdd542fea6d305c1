import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { ensureInstalled } from '../services/debian.ts';
import { holdLease } from './held.ts';
import { configuration, manifest, program, root, web } from './process.ts';

/** What only a person at a terminal gets, on a real pseudo-terminal (`script`, util-linux). */

const escape = '\u001b';

await ensureInstalled('script');

t.test('colours on a terminal only, and not where they are not wanted', async (t) => {
  const place = layOut(t);
  const plain: Record<string, string> = {};
  for (const [what, env, before, after] of [
    ['nothing said', {}, '', ''],
    ['an empty NO_COLOR', { NO_COLOR: '' }, '', ''],
    ['NO_COLOR', { NO_COLOR: '1' }, '', ''],
    ['TERM=dumb', { TERM: 'dumb' }, '', ''],
    ['--no-color', {}, '', '--no-color'],
    ['--no-color before the command', {}, '--no-color', ''],
  ] as const) {
    const isColoured = what === 'nothing said' || what === 'an empty NO_COLOR';
    const run = onTerminal(place, `${before} run -c c.yml --dry-run ${after}`, env);
    t.equal(run.includes(escape), isColoured, `${what}: results and warnings`);
    t.equal(
      onTerminal(place, `${before} run -c gone.yml ${after}`, env).includes(escape),
      isColoured,
      `${what}: errors`,
    );
    plain[what] = run.replaceAll(new RegExp(`${escape}\\[\\d+m`, 'g'), '');
  }
  t.equal(new Set(Object.values(plain)).size, 1, 'without colours it says the same');
});

t.test('each stream is coloured for itself', async (t) => {
  const place = layOut(t);
  const out = onTerminal(place, 'run -c c.yml --dry-run 2>err.txt; cat err.txt >&2');
  const [warning, ...results] = [
    /^.*warning.*$/m.exec(out)?.[0] ?? '',
    ...out.split('\n').filter((line) => !line.includes('warning')),
  ];
  t.match(warning, /^warning {2}/, 'what went to a file has no colours');
  t.ok(results.some((line) => line.includes(escape)));
  const piped = onTerminal(place, 'run -c c.yml --dry-run | cat');
  t.match(piped, new RegExp(`${escape}\\[33mwarning`));
  t.match(piped, /^done {2}dry run/m);
});

t.test('a progress bar on a terminal while work goes on, and none is left behind', async (t) => {
  const place = layOut(t);
  const lock = holdLease(path.join(place, 'web/one'));
  const child = spawn('script', ['-qec', command('run -c c.yml'), '/dev/null'], {
    cwd: place,
    env: environment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const closed = once(child, 'close') as Promise<[number | null]>;
  let seen = '';
  let released = false;
  for await (const chunk of child.stdout) {
    seen += String(chunk);
    if (released || !/0%.*of 4 B/.test(seen)) continue;
    released = true;
    rmSync(lock);
  }
  t.ok(released, 'the bar was seen');
  t.same(await closed, [0, null]);
  t.match(seen, /publish_new/);
  t.equal(
    seen.lastIndexOf(`${escape}[?25l`) < seen.lastIndexOf(`${escape}[?25h`),
    true,
    'the cursor is back',
  );
  t.equal(seen.lastIndexOf(`${escape}[?7l`) < seen.lastIndexOf(`${escape}[?7h`), true, 'lines wrap again');
});

function layOut(t: Test): string {
  return t.testdir({
    source: { one: { 'manifest.json': manifest(['a.txt', 'b.txt']), 'a.txt': 'a', 'b.txt': 'b' } },
    'c.yml': configuration([web, root]),
  });
}

function command(line: string): string {
  return `"${process.execPath}" "${program}" ${line}`;
}

function environment(more: Record<string, string> = {}): Record<string, string> {
  return { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', TERM: 'xterm', ...more };
}

function onTerminal(cwd: string, line: string, env: Record<string, string> = {}): string {
  return spawnSync('script', ['-qec', command(line), '/dev/null'], {
    cwd,
    env: environment(env),
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  }).stdout;
}
