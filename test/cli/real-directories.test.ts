import fs, {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import path from 'node:path';
import t, { type Test } from 'tap';
import type { Output } from '../../src/cli/output/output.ts';
import type { ErrorRecord } from '../../src/core/lib/errors.ts';
import type { DestinationResult, PipelineResult, RunResult } from '../../src/core/publish/results/result.ts';

/**
 * Directories as people have them, each published, published again, changed, rolled back and brought back.
 * The commands run in this process, so that the files that they open are counted.
 */

/** The files that were opened for reading, by their real paths. */
const opened: string[] = [];
const { openSync } = fs;
fs.openSync = ((file: fs.PathLike, flags: fs.OpenMode, mode?: fs.Mode) => {
  const descriptor = openSync(file, flags, mode);
  if (fs.fstatSync(descriptor).isFile()) opened.push(fs.readlinkSync(`/proc/self/fd/${descriptor}`));
  return descriptor;
}) as typeof fs.openSync;
syncBuiltinESMExports();

// Loaded after the calls are watched.
const { publish } = await import('../../src/cli/commands/publish/publish.ts');
const { promoteRelease, rollBackRelease } = await import('../../src/cli/commands/publish/releases/switch.ts');
const { makeOutput } = await import('../../src/cli/output/output.ts');

type Tree = Readonly<Record<string, string>>;

const numbered = (count: number, name: (index: number) => string): Tree =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [name(index), `content ${index}`]));

interface Kind {
  files?: Tree;
  /** Adds what is not a regular file, or is copied. */
  more?: (site: string) => void;
  links?: 'follow' | 'skip';
  exclude?: string[];
  /** A path that must not be published. */
  absent?: string;
}

const page = { 'index.html': '<p>home</p>' };

const kinds: Readonly<Record<string, Kind>> = {
  'VitePress build': {
    files: {
      ...page,
      '404.html': 'none',
      'hashmap.json': '{"index.md":"B1x"}',
      'assets/app.C3f-_x1.js': 'export {}',
      'assets/chunks/theme.B-9zQ.js': 'x',
    },
  },
  'Hugo build': {
    files: { ...page, 'index.xml': '<rss/>', 'sitemap.xml': '<urlset/>', 'posts/first/index.html': 'first' },
  },
  'Jekyll build': {
    files: {
      ...page,
      'feed.xml': '<feed/>',
      '2026/11/26/hello-world.html': 'hello',
      'assets/main.css': 'p {}',
    },
  },
  'Storybook build': {
    files: { ...page, 'iframe.html': 'x', 'project.json': '{}', 'sb-manager/globals-runtime.js': '1' },
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
  'a repository with .git and .env': {
    files: { ...page, '.git/HEAD': 'ref: refs/heads/main', '.git/objects/ab/cd': 'x', '.env': 'SECRET=1' },
    exclude: ['.env'],
    absent: '.git',
  },
  'a folder from macOS': {
    files: { ...page, '.DS_Store': 'Bud1', '._index.html': 'Mac OS X', 'photos/.DS_Store': 'Bud1' },
    absent: '.DS_Store',
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
    absent: 'broken',
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

/** Collects the documents of commands, and prints nothing. */
function collecting(): { output: Output; last: () => unknown } {
  let last: unknown;
  const output: Output = {
    ...makeOutput({ json: true, color: false }),
    json: (_, body) => void (last = body),
    result: (_, body) => void (last = body),
  };
  return { output, last: () => last };
}

function makeTree(site: string, { files = {}, more = () => undefined }: Kind): void {
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(site, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, content);
  }
  mkdirSync(site, { recursive: true });
  more(site);
  // A file that was changed a moment ago is hashed again, because it may still be changing.
  const longAgo = new Date('2026-11-20T01:02:03Z');
  for (const entry of readdirSync(site, { recursive: true, withFileTypes: true }))
    if (entry.isFile()) utimesSync(path.join(entry.parentPath, entry.name), longAgo, longAgo);
}

interface Round {
  status: number;
  action: string | undefined;
  written: number;
  /** The files of the directory that were read. */
  read: number;
}

interface Site {
  site: string;
  www: string;
  publish: () => Promise<Round>;
  /** The error of the directory in the last publication. */
  error: () => ErrorRecord | null | undefined;
  /** Goes back, and to the latest release again. */
  rollBackAndForth: () => Promise<string[]>;
}

function layOut(t: Test, kind: Kind): Site {
  const cwd = t.testdir({});
  const [site, www, saved] = ['site', 'www', 'waybill.yml'].map((name) => path.join(cwd, name)) as [
    string,
    string,
    string,
  ];
  process.env['XDG_CACHE_HOME'] = path.join(cwd, 'cache');
  makeTree(site, kind);
  const { output, last } = collecting();
  const io = { output, signal: new AbortController().signal };
  const common = { format: 'json', color: false, verbose: false, dryRun: false } as const;
  const current = (): string => path.basename(fs.readlinkSync(path.join(www, 'current')));
  const pipelineResult = (): PipelineResult | undefined => (last() as RunResult).pipelines[0];
  const action = (): DestinationResult['actions'][number] | undefined =>
    pipelineResult()?.destinations[0]?.actions[0];
  return {
    ...{ site, www },
    error: () => pipelineResult()?.invalidBundles[0]?.error,
    async publish() {
      opened.length = 0;
      const save = existsSync(saved) ? undefined : saved;
      const options = {
        ...common,
        force: false,
        yes: false,
        open: false,
        releases: true,
        index: 'never',
      } as const;
      const { links, exclude } = kind;
      const status = await publish(
        { ...options, directory: site, destinations: [www], links, exclude, save },
        io,
      );
      const read = opened.filter((file) => file.startsWith(`${site}/`)).length;
      return { status, action: action()?.action, written: action()?.outputsWritten ?? 0, read };
    },
    async rollBackAndForth() {
      const seen = [current()];
      const at = { ...common, config: saved, pipeline: 'site' };
      t.equal(await rollBackRelease(at, io), 0);
      seen.push(current());
      t.equal(await promoteRelease({ ...at, release: seen[0] ?? '' }, io), 0);
      return [...seen, current()];
    },
  };
}

for (const [name, kind] of Object.entries(kinds))
  t.test(`publishes ${name}, twice, changed, and back and forth`, async (t) => {
    const { site, www, publish: publishIt, rollBackAndForth } = layOut(t, kind);
    const first = await publishIt();
    t.match(first, { status: 0, action: 'publish_new' });
    t.ok(first.read > 0, 'the files are read once');
    t.same(await publishIt(), { status: 0, action: 'skip_same', written: 0, read: 0 });
    const published = readdirSync(path.join(www, 'current'), { recursive: true, encoding: 'utf8' });
    if (kind.absent !== undefined) t.notOk(published.some((file) => path.basename(file) === kind.absent));

    const changed =
      published.find(
        (file) => fs.statSync(path.join(www, 'current', file)).isFile() && file !== '.publisher.json',
      ) ?? '';
    writeFileSync(path.join(site, changed), 'changed content');
    t.match(await publishIt(), { status: 0, action: 'replace_catalog', written: 1 });
    t.equal(readFileSync(path.join(www, 'current', changed), 'utf8'), 'changed content');
    const [latest, earlier, again] = await rollBackAndForth();
    t.not(earlier, latest);
    t.equal(again, latest);
    t.match(await publishIt(), { status: 0, action: 'skip_same', written: 0 });
  });

t.test('refuses a name in NFD with one error, and publishes nothing', async (t) => {
  const name = 'café.html'.normalize('NFD');
  const { www, publish: publishIt, error } = layOut(t, { files: { ...page, [name]: 'x' } });
  t.match(await publishIt(), { status: 1, action: 'error', written: 0 });
  t.match(error(), { code: 'invalid_bundle', message: /normali[sz]ation form C/ });
  t.notOk(existsSync(www));
});

t.test('there are twenty kinds of directories', async (t) => {
  t.equal(Object.keys(kinds).length, 20);
});
