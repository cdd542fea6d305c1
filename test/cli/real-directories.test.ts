import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { type Kind, layOut, publishInRounds, type Tree } from './publishing/rounds.ts';

/**
 * Typical directories of users, each published, republished, changed, rolled back and restored.
 * test/matrix/site-generators.test.ts does the same with builds of Hugo, Jekyll and VitePress.
 */

const numbered = (count: number, name: (index: number) => string): Tree =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [name(index), `content ${index}`]));

const page = { 'index.html': '<p>home</p>' };

const kinds: Readonly<Record<string, Kind>> = {
  'VitePress build': {
    files: {
      ...page,
      '404.html': 'none',
      'hashmap.json': '{"index.md":"B1x"}',
      'vp-icons.css': 'x',
      'how-to/index.html': 'x',
      'assets/app.C3f-_x1.js': 'export {}',
      'assets/how-to_ci.md.86lXEjja.js': 'x',
      'assets/how-to_ci.md.86lXEjja.lean.js': 'x',
      'assets/chunks/theme.B-9zQ.js': 'x',
      'assets/inter-roman-vietnamese.BjW4sHH5.woff2': 'x',
    },
  },
  'Hugo build': {
    files: {
      ...page,
      'index.xml': '<rss/>',
      'sitemap.xml': '<urlset/>',
      'posts/café/index.html': 'first',
      [`main.min.${'5b'.repeat(32)}.css`]: 'p{}',
      'photo one_hudd7319bf_103_10x0_resize_box_3.png': 'x',
      '.nojekyll': '',
    },
  },
  'Jekyll build': {
    files: {
      ...page,
      'feed.xml': '<feed/>',
      '2026/11/26/hello-world.html': 'hello',
      'assets/css/main.css': 'p {}',
      'assets/css/main.css.map': '{"version":3}',
    },
  },
  'Storybook build': {
    files: {
      ...page,
      'iframe.html': 'x',
      'project.json': '{}',
      'assets/iframe-C-wdzfm_.js': 'x',
      'sb-common-assets/favicon.svg': '<svg/>',
      'sb-manager/globals-runtime.js': '1',
    },
  },
  'photos with spaces and parentheses': {
    files: numbered(6, (index) => `2026 Berlin/IMG_${index} (copy ${index}).JPG`),
  },
  'documentation of Debian packages': {
    more: (site) => {
      const found = existsSync('/usr/share/doc') ? readdirSync('/usr/share/doc').slice(0, 40) : [];
      for (const name of found)
        cpSync(path.join('/usr/share/doc', name), path.join(site, name), {
          recursive: true,
          dereference: false,
        });
      writeFileSync(path.join(site, 'README'), 'documentation');
    },
    links: 'skip',
  },
  'the documentation of this project': { more: (site) => cpSync('docs', site, { recursive: true }) },
  'a Hugo project with its caches': {
    files: { ...page, '.hugo_build.lock': '', 'resources/_gen/images/photo one_hu1.png': 'x' },
  },
  'a repository with .git and .env': {
    files: { ...page, '.git/HEAD': 'ref: refs/heads/main', '.git/objects/ab/cd': 'x', '.env': 'SECRET=1' },
    exclude: ['.env'],
    absent: /^\.(?:git|env)$/,
  },
  'a folder from macOS': {
    files: {
      ...page,
      '.DS_Store': 'Bud1',
      '._index.html': 'Mac OS X',
      'photos/.DS_Store': 'Bud1',
      'Icon\r': '',
    },
    absent: /^(?:\.DS_Store|\._.*|Icon\r)$/,
  },
  '5,000 files': { files: numbered(5000, (index) => `${index % 50}/file-${index}.txt`) },
  'a tree of 40 levels': { files: { [`${'d/'.repeat(40)}leaf.txt`]: 'deep', ...page } },
  'accents and ideographs in NFC': { files: { 'café.html': 'x', 'naïve.html': 'x', '日本語.html': 'x' } },
  'emoji and right-to-left names': { files: { '🚀 launch.html': 'x', 'שלום.txt': 'x', 'مرحبا.txt': 'x' } },
  'links that are followed': {
    files: { ...page, 'real/data.txt': 'data' },
    more: (site) => symlinkSync('real', path.join(site, 'alias')),
    links: 'follow',
  },
  'links that are skipped': {
    files: page,
    more: (site) => symlinkSync('nowhere', path.join(site, 'broken')),
    links: 'skip',
    absent: /^broken$/,
  },
  'empty files and directories': {
    files: { 'empty.txt': '', 'also-empty': '', ...page },
    more: (site) => mkdirSync(path.join(site, 'empty-directory')),
  },
  'a file named -': { files: { '-': 'dash', '--force': 'option', ...page } },
  'names with %, ? and #': { files: { '100%.html': 'x', 'what?.html': 'x', 'c#.html': 'x', '%2e%2e': 'x' } },
  'names that shells expand': {
    files: { "it's $HOME.txt": 'x', 'a;b&c|d.txt': 'x', '*.txt': 'x', '~': 'x' },
  },
  'hidden files of a web server': { files: { '.well-known/security.txt': 'x', '.htaccess': 'x', ...page } },
};

for (const [name, kind] of Object.entries(kinds))
  t.test(`publishes ${name}, again, after changes, and alternating`, (t) => publishInRounds(t, kind));

t.test('rejects a name in NFD with one error, and publishes nothing', async (t) => {
  const name = 'café.html'.normalize('NFD');
  const { www, publish: publishIt, error } = layOut(t, { files: { ...page, [name]: 'x' } });
  t.match(await publishIt(), { status: 1, action: 'error', written: 0 });
  t.match(error(), { code: 'invalid_bundle', message: /normali[sz]ation form C/ });
  t.notOk(existsSync(www));
});

t.test('there are more than twenty kinds of directories', async (t) => {
  t.ok(Object.keys(kinds).length > 20);
});
