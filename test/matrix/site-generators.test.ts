import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { publishInRounds } from '../cli/publishing/rounds.ts';
import { ensureInstalled } from '../services/debian.ts';

/**
 * Builds of real site generators: published, republished, changed, and rolled back and forward.
 * test/cli/real-directories.test.ts has similar directories.
 */

// A generator is slow on a busy machine.
t.setTimeout(0);

/** A directory outside of the clone, because a generator would find the clone's settings. */
function projectOf(t: Test): string {
  const project = mkdtempSync(path.join(tmpdir(), 'waybill-generator-'));
  t.teardown(() => rmSync(project, { recursive: true, force: true }));
  return project;
}

function write(root: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, name)), { recursive: true });
    writeFileSync(path.join(root, name), content);
  }
}

/** Publishes the output of a generator, which must have a file with a matching path. */
async function publishBuild(t: Test, build: string, expected: RegExp): Promise<void> {
  const built = readdirSync(build, { recursive: true, encoding: 'utf8' });
  t.ok(
    built.some((file) => expected.test(file)),
    built.join(' '),
  );
  await publishInRounds(t, { more: (site) => cpSync(build, site, { recursive: true }) });
}

t.test('publishes a build of Hugo', async (t) => {
  await ensureInstalled('hugo');
  const project = projectOf(t);
  const page = '{{ with resources.Get "main.css" | fingerprint }}{{ .RelPermalink }}{{ end }}{{ .Content }}';
  write(project, {
    'config.toml': 'baseURL = "https://www.example.org/"\n',
    'assets/main.css': 'p { color: teal }\n',
    'layouts/_default/single.html': page,
    'layouts/_default/list.html': page,
    'content/posts/café.md': '---\ntitle: Café\n---\nHello\n',
    'static/.nojekyll': '',
  });
  execFileSync('hugo', ['--minify', '--cacheDir', path.join(project, '.cache')], { cwd: project });
  await publishBuild(t, path.join(project, 'public'), /^main\.[0-9a-f]{64}\.css$/);
});

t.test('publishes a build of Jekyll', async (t) => {
  await ensureInstalled('jekyll');
  const project = projectOf(t);
  write(project, {
    '_config.yml': 'title: Site\n',
    '_sass/main.scss': 'p { color: teal }\n',
    'assets/css/main.scss': '---\n---\n@import "main";\n',
    '_posts/2026-11-20-hello-world.md': '---\ntitle: Hello\n---\nHello\n',
    'index.md': '---\n---\nHello\n',
  });
  execFileSync('jekyll', ['build'], { cwd: project });
  await publishBuild(t, path.join(project, '_site'), /main\.css\.map$/);
});

t.test('publishes a build of VitePress', async (t) => {
  const project = projectOf(t);
  write(project, { 'index.md': '# Hello\n', 'guide/first page.md': '# First\n' });
  symlinkSync(path.resolve('node_modules'), path.join(project, 'node_modules'));
  execFileSync(process.execPath, [path.resolve('node_modules/vitepress/bin/vitepress.js'), 'build', project]);
  await publishBuild(t, path.join(project, '.vitepress/dist'), /\.lean\.js$/);
});
