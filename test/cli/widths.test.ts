import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import t from 'tap';
import { ensureInstalled } from '../services/debian.ts';
import { startDaemon } from './daemon.ts';
import { program } from './process.ts';
import { screenOf } from './terminal-screen.ts';

/** Command output on terminals of three widths, with a real pseudo-terminal (`script`, util-linux). */

await ensureInstalled('script');

const place = mkdtempSync(path.join(tmpdir(), 'wb-'));
t.teardown(() => rmSync(place, { recursive: true, force: true }));
mkdirSync(path.join(place, 'site/guides'), { recursive: true });
for (const name of ['index.html', 'guides/publishing-to-a-server.html', 'guides/rolling-back.html'])
  writeFileSync(path.join(place, 'site', name), name);
writeFileSync(
  path.join(place, 'c.yml'),
  `upload_tokens: [{ id: ci, value_env: WAYBILL_TOKEN, pipelines: [uploads, handbook] }]
server: { http: { listen: "127.0.0.1:0" }, staging: { directory: ./staging } }
pipelines:
  - id: handbook
    source: { backend: local, path: ./site, manifest: auto }
    destinations:
      - { id: web, backend: local, path: ./web, mapping: fixed, workflow: replacement, layout: releases }
  - id: uploads
    source: { backend: http_upload }
    destinations:
      - { id: web, backend: local, path: ./uploaded, public_base_url: "https://www.example.org/uploaded/" }
`,
);
const env = {
  PATH: process.env['PATH'] ?? '',
  HOME: place,
  TERM: 'xterm',
  WAYBILL_TOKEN: 'a-token-of-sixteen-or-more',
};

/** Runs commands on a terminal with this number of columns, or with a pipe without one. */
async function shown(lines: readonly string[], columns?: number): Promise<string[]> {
  const waybill = `"${process.execPath}" "${program}"`;
  const commands = lines.map((line) => `${waybill} ${line}`);
  const size = columns === undefined ? [] : [`stty cols ${columns}`];
  const script = [...size, ...commands].join('; ');
  const [name, args] =
    columns === undefined ? ['sh', ['-c', `{ ${script}; } 2>&1`]] : ['script', ['-qec', script, '/dev/null']];
  const child = spawn(name, args, { cwd: place, env, stdio: ['ignore', 'pipe', 'inherit'] });
  return screenOf(await text(child.stdout));
}

/** The words of all lines, without times, which differ between two runs. */
function wordsOf(lines: readonly string[]): string[] {
  return lines
    .join(' ')
    .replaceAll(/ in\s+[\d.]+\s+s\b/g, ' in TIME s')
    .split(/\s+/)
    .filter((word) => word !== '')
    .sort();
}

t.test('no line is wider than the terminal, and no word is broken', async (t) => {
  const { url } = await startDaemon(t, place, env);
  const commands = [
    'publish site www --releases',
    'publish site www --releases --dry-run --force',
    'run -c c.yml',
    'run -c c.yml -p handbook -d wbe',
    'verify -c c.yml',
    'releases list -c c.yml -p handbook',
    `push site --to ${url} -p uploads --no-git`,
    `runs list --to ${url}`,
    `pipelines --to ${url}`,
    `releases list --to ${url} -p handbook`,
    `releases show current --to ${url} -p handbook`,
    'releases rollback -c c.yml -p handbook',
    'promote web uploaded --dry-run',
    'config check -c c.yml',
    'init s3 --out /dev/null',
    'push site',
    'publish site www --links yes',
    'run c.yml',
    'releases show',
  ];
  await shown(commands);
  const words = wordsOf(await shown(commands));
  for (const width of [60, 80, 120]) {
    const lines = await shown(commands, width);
    // A path or digest that is wider than the terminal stays whole on its own line, and the temporary
    // directory may have any length.
    for (const line of lines) {
      const text = line.replaceAll(place, '/p');
      t.ok(text.length <= width || !text.trim().includes(' '), `${width}: ${line}`);
    }
    t.same(wordsOf(lines), words, `${width} columns have the same words`);
  }
});
