import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { noise } from '../fixtures/noise.ts';
import { type CuttingProxy, startCuttingProxy } from '../services/cutting-proxy.ts';
import { ensureInstalled } from '../services/debian.ts';
import { startDaemon } from './daemon.ts';
import { holdLease } from './held.ts';
import { configuration, manifest, program, root, web } from './process.ts';
import { screenOf } from './terminal-screen.ts';

/** Output that only appears on a terminal, tested with a real pseudo-terminal (`script`, util-linux). */

const escape = '\u001b';

await ensureInstalled('script');

t.test('prints colors on a terminal only, and not if they are disabled', async (t) => {
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
  t.equal(new Set(Object.values(plain)).size, 1, 'the text without colors is the same');
});

t.test('each stream is colored independently', async (t) => {
  const place = layOut(t);
  const out = onTerminal(place, 'run -c c.yml --dry-run 2>err.txt; cat err.txt >&2');
  const [warning, ...results] = [
    /^.*warning.*$/m.exec(out)?.[0] ?? '',
    ...out.split('\n').filter((line) => !line.includes('warning')),
  ];
  t.match(warning, /^warning {2}/, 'the output in a file has no colors');
  t.ok(results.some((line) => line.includes(escape)));
  const piped = onTerminal(place, 'run -c c.yml --dry-run | cat');
  t.match(piped, new RegExp(`${escape}\\[33mwarning`));
  t.match(piped, /^would publish 2, .*dry run/m);
});

t.test('shows a progress bar on a terminal during work, and removes it afterwards', async (t) => {
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
    if (released || !/[1-9]%.*of 6 B/.test(seen)) continue;
    released = true;
    rmSync(lock);
  }
  t.ok(released, 'the bar was visible');
  t.same(await closed, [0, null]);
  t.match(seen, /publish_new/);
  t.equal(
    seen.lastIndexOf(`${escape}[?25l`) < seen.lastIndexOf(`${escape}[?25h`),
    true,
    'the cursor is visible again',
  );
  t.equal(seen.lastIndexOf(`${escape}[?7l`) < seen.lastIndexOf(`${escape}[?7h`), true, 'lines wrap again');
});

t.test('shows a bar while it reads files without a digest in the manifest', async (t) => {
  const place = layOut(t);
  // A sparse file, because only hashing should take time.
  writeFileSync(path.join(place, 'source/one/large.bin'), '');
  truncateSync(path.join(place, 'source/one/large.bin'), 2 ** 31);
  writeFileSync(path.join(place, 'source/one/manifest.json'), manifest(['large.bin']));
  const seen = onTerminal(place, 'run -c c.yml --dry-run');
  t.match(seen, /\d% {2}\S+ \S+ of 2 GiB/);
  t.match(seen, /publish_new/);
});

const token = 'a-token-of-all-producers';
const size = 16 << 20;

/** A daemon behind a connection that takes about a second for the site next to it. */
async function overALine(t: Test): Promise<{ place: string; line: CuttingProxy; push: string }> {
  const place = t.testdir({
    'c.yml': [
      'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [site]}]',
      'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}',
      'pipelines:',
      '  - {id: site, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}',
    ].join('\n'),
  });
  mkdirSync(path.join(place, 'site'));
  writeFileSync(path.join(place, 'site/data.bin'), noise(size));
  const { port } = await startDaemon(t, place, { TOKEN_CI: token });
  const line = await startCuttingProxy(t, port);
  line.slowTo(size);
  return { place, line, push: `push site --to http://127.0.0.1:${line.port} -p site --name n --no-git` };
}

for (const resumable of ['never', 'always --chunk-size 256KiB'])
  t.test(`push shows the sent bytes on a terminal, also after a disconnect (${resumable})`, async (t) => {
    const { place, line, push } = await overALine(t);
    line.cutAfter(size / 2);
    const child = spawn('script', ['-qec', command(`${push} --resumable ${resumable}`), '/dev/null'], {
      cwd: place,
      env: environment({ WAYBILL_TOKEN: token }),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    const closed = once(child, 'close') as Promise<[number | null]>;
    let seen = '';
    const bar = /(\d+)% {2}\S+ \S+ of 16(\.0)? MiB/g;
    const reading = (async () => {
      for await (const chunk of child.stdout) seen += String(chunk);
    })();
    // Continues once the bar was seen, whatever the speed of the machine is.
    while (line.passed('to the server') < size / 8) await moment();
    line.hang();
    while (seen.match(bar) === null) await moment();
    line.resume();
    await reading;
    t.same(await closed, [0, null]);
    t.equal(line.cuts(), 1);
    const shown = [...seen.matchAll(bar)].map(([, percent]) => Number(percent));
    t.ok(
      shown.some((percent) => percent > 0 && percent < 100),
      `shown: ${shown.join(' ')}`,
    );
    t.ok(shown.every((percent) => percent <= 100));
    const lines = screenOf(seen);
    t.match(lines, [/^note {2}.*; trying again in/, /^note {2}accepted as site\./, /^succeeded/, /\+ web/]);
    t.equal(lines.length, 4, `the bar is removed:\n${lines.join('\n')}`);
    t.ok(
      seen.lastIndexOf(`${escape}[?25l`) < seen.lastIndexOf(`${escape}[?25h`),
      'the cursor is visible again',
    );
  });

t.test('push shows no bar without a terminal, or with JSON', async (t) => {
  const { place, push } = await overALine(t);
  const env = { WAYBILL_TOKEN: token, NO_COLOR: '1' };
  const [piped, json] = await Promise.all([
    ended(`${command(push)} 2>err.txt; cat err.txt >&2`, place, env),
    ended(command(`${push.replace('--name n', '--name m')} --format json`), place, env),
  ]);
  t.match(piped, /^succeeded[^]*\nnote {2}accepted as \S+; waiting for the result\r\n$/);
  for (const output of [piped, json]) t.notMatch(output, /%|\[\?25|\[2K/);
  t.match(json, /"kind": ?"push"/);
});

const moment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

/** The terminal output of a command. Does not block this process, which runs the connection to the daemon. */
async function ended(line: string, cwd: string, env: Record<string, string>): Promise<string> {
  const child = spawn('script', ['-qec', line, '/dev/null'], {
    cwd,
    env: environment(env),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let seen = '';
  for await (const chunk of child.stdout) seen += String(chunk);
  return seen;
}

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
