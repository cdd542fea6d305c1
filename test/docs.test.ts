import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import t from 'tap';
import { errorTable } from '../src/core/lib/error-codes.ts';
import { program } from './cli/process.ts';
import { bash, blocksOf } from './docs/pasted-blocks.ts';
import { ensureInstalled } from './services/debian.ts';
import { freePort } from './services/free-port.ts';

const pages = [
  'README.md',
  'ARCHITECTURE.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  'examples/ci/README.md',
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

t.test('every relative link has an existing file and heading', async (t) => {
  let followed = 0;
  for (const page of pages) {
    for (const link of linksOf(readFileSync(page, 'utf8'))) {
      if (/^[a-z]+:/.test(link)) continue;
      const [file = '', heading] = link.split('#');
      const target = file === '' ? page : path.join(path.dirname(page), file);
      t.ok(existsSync(target), `${page} links to ${link}`);
      if (heading !== undefined)
        t.ok(headingsOf(readFileSync(target, 'utf8')).includes(heading), `${page} links to ${link}`);
      followed += 1;
    }
  }
  t.ok(followed > 30, `${followed} links were followed`);
});

t.test('docs/README.md lists every page of docs/', async (t) => {
  t.ok(linksOf(readFileSync('README.md', 'utf8')).includes('docs/README.md'));
  // Decision records have their own list.
  const listed = ['docs', 'docs/decisions'].flatMap((folder) =>
    linksOf(readFileSync(`${folder}/README.md`, 'utf8')).map((link) => path.join(folder, link)),
  );
  for (const page of pages.filter((name) => name.startsWith('docs/') && name !== 'docs/README.md'))
    t.ok(listed.includes(page), `docs/README.md lists ${page}`);
});

t.test('every page linked from a Markdown file is a page of the site', async (t) => {
  const { pageOf } = await import('../docs/.vitepress/pages.ts');
  for (const page of pages) {
    t.type(pageOf(page), 'string', page);
    for (const link of linksOf(readFileSync(page, 'utf8'))) {
      const [file = ''] = link.split('#');
      if (/^[a-z]+:/.test(link) || !file.endsWith('.md')) continue;
      const target = path.join(path.dirname(page), file);
      t.ok(pages.includes(target), `${page} links to ${target}`);
    }
  }
});

t.test('the sidebar has the groups of docs/README.md, with its pages', async (t) => {
  const { sidebar } = await import('../docs/.vitepress/pages.ts');
  const groups = sidebar();
  t.match(
    groups.map(({ text }) => text),
    ['Tutorials', 'How-to guides', 'Reference', 'Explanation', 'For maintainers'],
  );
  t.match(groups[1]?.items?.[0], { text: 'Install waybill', link: '/installation' });
  for (const { text, items } of groups) t.ok((items?.length ?? 0) > 0, `${text} has pages`);
});

t.test('every error code is documented', async (t) => {
  const text = readFileSync('docs/errors.md', 'utf8');
  for (const code of Object.keys(errorTable)) t.match(text, `\`${code}\``, code);
});

t.test('waybill can read the catalogs of the catalog page', async (t) => {
  const { parseState } = await import('./support/parse-state.ts');
  const { sourceBackends } = await import('../src/core/storage/backends.ts');
  const examples = blocksOf(readFileSync('docs/catalog-format.md', 'utf8'), 'json');
  const states = examples.map((text) => parseState(Buffer.from(text), sourceBackends));
  t.match(states, [
    { kind: 'valid' },
    { kind: 'legacy', version: 1 },
    { kind: 'legacy', version: 2 },
    { kind: 'legacy', version: 3 },
  ]);
});

t.test('the quick start of the README works, pasted into an empty directory', async (t) => {
  const [quickStart = ''] = blocksOf(readFileSync('README.md', 'utf8'), 'sh');
  // Without --yes, npx asks before it downloads a package for the first time, and reads the pasted lines.
  const npx = `npx() {
    if [ "$1" = --yes ]; then shift; downloaded=1; fi
    [ -n "$downloaded" ] || { read -r line; return 1; }
    shift; "${process.execPath}" "${program}" "$@"
  }`;
  const script = `${npx}\n${quickStart}`;
  const { status, output } = await bash(script, { cwd: t.testdir({}) });
  t.equal(status, 0, output);
  const order = ['publish_new=1', 'replace_catalog=1', 'rolled back', '<h1>Hello</h1>'];
  const found = order.map((text) => output.indexOf(text));
  t.same(
    found,
    found.toSorted((a, b) => a - b),
    output,
  );
  t.notOk(found.includes(-1), output);
});

t.test('every command of the five-minute tour works, pasted in order', async (t) => {
  await ensureInstalled('curl');
  const blocks = blocksOf(readFileSync('docs/tutorials/five-minute-tour.md', 'utf8'), 'sh');
  t.ok(blocks.length >= 8, 'the tour was found');
  const port = await freePort();
  const clone = makeClone(t);
  // Each block reports when it starts, so that a failure shows its location.
  const script = blocks.map((block, index) => `echo "block ${index}"\n${block}`).join('\n');
  // A comment for each, so that a slow run does not count as hanging.
  const reportOutput = (text: string): void =>
    [...text.matchAll(/^block \d+$/gm)].forEach(([line]) => t.comment(line));
  const { status, output } = await bash(script.replaceAll('8080', String(port)), {
    cwd: clone,
    onOutput: reportOutput,
  });
  t.equal(status, 0, output);
  for (const seen of [
    'publish_new=3', // the dry run, and the run
    'skip_same=3',
    'session-42.tar.gz: OK',
    'exit code 1',
    'fail_unmanaged',
    'not yours',
    '"status":"ok"',
    '"status":"accepted"',
    '"status":"succeeded"',
  ])
    t.ok(output.includes(seen), `${seen} is printed`);
  t.notOk(existsSync(path.join(clone, 'demo-run')), 'the tour cleans up');
});

/** A fresh clone after `npm ci`. It is a copy, because the tour writes to it. */
function makeClone(t: Test): string {
  const clone = mkdtempSync(path.join(tmpdir(), 'waybill-tour-'));
  t.teardown(() => rmSync(clone, { recursive: true, force: true }));
  const left = new Set(['.git', '.tap', 'node_modules', 'demo-run', 'test', 'bench']);
  for (const name of readdirSync('.').filter((entry) => !left.has(entry)))
    cpSync(name, path.join(clone, name), { recursive: true });
  symlinkSync(path.resolve('node_modules'), path.join(clone, 'node_modules'));
  return clone;
}

function withoutCode(markdown: string): string {
  return markdown.replaceAll(/^```.*?^```$/gms, '').replaceAll(/`[^`\n]*`(?!\])/g, '');
}

function linksOf(markdown: string): string[] {
  return [...withoutCode(markdown).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
}

/** Creates anchors of headings like code forges. */
function headingsOf(markdown: string): string[] {
  return [...markdown.replaceAll(/^```.*?^```$/gms, '').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}
