import { execFileSync, spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { parse } from 'yaml';
import { releaseProblems } from '../scripts/package/release.mjs';
import { chosenRepository, publicRepository, repositoryKeys } from '../scripts/package/repository.mjs';

const ready = {
  manifest: { version: '1.2.3', publishConfig: { provenance: true } },
  repository: { address: 'https://example.org/a/waybill' },
  changelog: '# Changelog\n\n## [1.2.3] - 2026-11-25\n\n### Added\n',
  tags: ['v1.2.3'],
  changes: [],
};

t.test('reports all obstacles to a release together', (t) => {
  t.same(releaseProblems(ready), []);
  t.match(releaseProblems({ ...ready, changelog: '## [Unreleased] 1.2.3\n' }), [/CHANGELOG.*\[Unreleased\]/]);
  t.match(releaseProblems({ ...ready, changelog: '## [1.2.30] - 2026-11-25\n' }), [/CHANGELOG/]);
  t.match(releaseProblems({ ...ready, changelog: '## [1x2.3] - 2026-11-25\n' }), [/CHANGELOG/]);
  const repository = { problem: 'no repository is known' };
  t.match(releaseProblems({ ...ready, repository }), [/provenance.*no repository is known/]);
  const manifest = { version: '1.2.3' };
  t.same(releaseProblems({ ...ready, manifest, repository }), [], 'only the provenance');
  t.match(releaseProblems({ ...ready, tags: ['v1.2.2'], changes: ['src/a.ts'] }), [
    /no tag v1\.2\.3/,
    /src\/a/,
  ]);
  t.end();
});

t.test('recognizes a repository by any git address, if it is public', (t) => {
  for (const [address, expected] of [
    ['https://github.com/Someone/waybill.git', 'https://github.com/Someone/waybill'],
    ['https://github.com/Someone/waybill/', 'https://github.com/Someone/waybill'],
    ['git+https://github.com/Someone/waybill.git', 'https://github.com/Someone/waybill'],
    ['https://gitlab-ci-token:s3cret@gitlab.com/a/b/waybill.git', 'https://gitlab.com/a/b/waybill'],
    ['https://git.example.org:8443/a/waybill', 'https://git.example.org:8443/a/waybill'],
    ['git@GitHub.com:Someone/waybill.git', 'https://github.com/Someone/waybill'],
    ['codeberg.org:a/waybill', 'https://codeberg.org/a/waybill'],
    ['ssh://git@git.example.org:2222/a/waybill.git', 'https://git.example.org/a/waybill'],
    ['git+ssh://git@github.com/a/waybill.git', 'https://github.com/a/waybill'],
    ['git://git.example.org/a/waybill.git', 'https://git.example.org/a/waybill'],
    ...[
      ...['/srv/git/waybill.git', '../waybill', 'file:///srv/git/a/waybill', 'C:/git/a/waybill', ''],
      ...[
        'http://example.org/a/waybill',
        'ftp://example.org/a/waybill',
        'host:a/waybill',
        'github:a/waybill',
      ],
      ...['https://localhost/a/waybill', 'https://127.0.0.1/a/waybill', 'https://[::1]/a/waybill'],
      ...['https://0x7f.1/a/waybill', 'git@10.0.0.7:a/waybill', 'https://git.internal/a/waybill'],
      ...[
        'https://github.com/',
        'https://github.com/a',
        'https://github.com/a/b?c',
        'https://github.com/a/b#c',
      ],
    ].map((refused) => [refused, undefined] as const),
  ] as const)
    t.equal(publicRepository(address), expected, address);
  t.end();
});

t.test('the option has priority over the manifest, and the manifest over the remote', (t) => {
  const [option, url, origin] = ['https://a.org/a/a', 'git+https://b.org/b/b.git', 'git@c.org:c/c.git'];
  const manifest = { repository: { url } };
  t.same(chosenRepository({ option, manifest, origin }), { address: 'https://a.org/a/a' });
  t.same(chosenRepository({ manifest, origin }), { address: 'https://b.org/b/b' });
  t.same(chosenRepository({ manifest: { repository: url }, origin }), { address: 'https://b.org/b/b' });
  t.same(chosenRepository({ manifest: {}, origin }), { address: 'https://c.org/c/c' });
  t.match(chosenRepository({ manifest: {} }), { problem: /no remote "origin".*--repository https:/ });
  const { problem = '' } = chosenRepository({ manifest: {}, origin: 'https://ci:s3/cr@et@localhost/a/b' });
  t.match(problem, /the remote "origin" is no public address: "https:\/\/localhost\/a\/b".*--repository/);
  t.notMatch(problem, /s3|cr@et/, 'and the password is not printed');
  t.end();
});

t.test('the URL for issues is set for known hosts', (t) => {
  t.same(repositoryKeys('https://github.com/a/b'), {
    repository: { type: 'git', url: 'git+https://github.com/a/b.git' },
    homepage: 'https://github.com/a/b#readme',
    bugs: { url: 'https://github.com/a/b/issues' },
  });
  t.match(repositoryKeys('https://gitlab.com/a/b'), { bugs: { url: 'https://gitlab.com/a/b/-/issues' } });
  t.notOk('bugs' in repositoryKeys('https://git.example.org/a/b'));
  t.end();
});

t.test('packs a clone at its tag with its repository, and rejects one without a repository', (t) => {
  const clone = cloneAtItsTag(t);
  const pack = (...args: string[]): SpawnSyncReturns<string> => packIn(clone, ...args);
  const none = pack('--release', '..');
  t.equal(none.status, 1);
  t.match(none.stderr, /^not ready to be published:\n {2}\S.*no remote "origin".*--repository.*\n$/);
  t.equal(none.stdout, '');
  git(clone, 'remote', 'add', 'origin', '/srv/git/waybill.git');
  t.match(pack('--release', '..').stderr, 'is no public address: "/srv/git/waybill.git"');
  git(clone, 'remote', 'set-url', 'origin', 'https://ci:a-token@github.com/someone/waybill.git');
  const packed = pack('--release', '..');
  t.equal(packed.status, 0, packed.stderr);
  const keys = ['repository', 'homepage', 'bugs', 'publishConfig'] as const;
  const found = manifestIn(clone, packed.stdout);
  t.match(found, repositoryKeys('https://github.com/someone/waybill'));
  t.match(found, { publishConfig: { provenance: true } });
  t.notMatch(JSON.stringify(keys.map((key) => found[key])), 'a-token');
  const named = pack('--repository', 'https://gitlab.com/other/waybill', '--release', '..');
  t.match(manifestIn(clone, named.stdout), repositoryKeys('https://gitlab.com/other/waybill'));
  writeFileSync(path.join(clone, 'LICENSE'), 'another');
  t.match(pack('--release', '..').stderr, /git has not got as they are: LICENSE/);
  t.end();
});

t.test('reports wrong arguments in one line', (t) => {
  for (const [args, said] of [
    [['--relase'], /--relase/],
    [['--repository'], /--repository/],
    [['a', 'b'], /one directory/],
  ] as const) {
    const { status, stderr } = packIn('.', ...args);
    t.equal(status, 2);
    t.match(stderr, said);
    t.equal(stderr.split('\n').length, 2, stderr);
  }
  const { status, stderr } = packIn('.', '--repository', 'http://localhost/a/b');
  t.equal(status, 1);
  t.match(stderr, /^--repository is no public address: "http:\/\/localhost\/a\/b"; .*\n$/);
  t.end();
});

t.test('package:deb rejects wrong arguments in one line', (t) => {
  for (const [args, env, stderr] of [
    [['--relase'], {}, /^npm run package:deb: .*--relase.*\n$/],
    [['a', 'b'], {}, /^npm run package:deb: one directory, not a and b\n$/],
    [['--version', '1 2'], {}, /^npm run package:deb: "1 2" is not a version of Debian\n$/],
    [[], { SOURCE_DATE_EPOCH: 'now' }, /^npm run package:deb: SOURCE_DATE_EPOCH is not a number\n$/],
  ] as const) {
    const options = { encoding: 'utf8', env: { ...process.env, ...env } } as const;
    t.match(spawnSync(process.execPath, ['scripts/package/deb.mjs', ...args], options), {
      status: 2,
      stderr,
    });
  }
  t.end();
});

t.test('the job of CONTRIBUTING.md may request an identity token, and publishes the packed file', (t) => {
  const text = readFileSync('CONTRIBUTING.md', 'utf8');
  const [, block = ''] = /^```yaml\n(.*?)^```$/ms.exec(text) ?? [];
  const workflow = parse(block) as {
    on: { push: { tags: string[] } };
    permissions: Record<string, string>;
    jobs: Record<string, { steps: { run?: string }[] }>;
  };
  t.same(workflow.on, { push: { tags: ['v*'] } });
  t.same(workflow.permissions, { contents: 'read', 'id-token': 'write' });
  const commands = Object.values(workflow.jobs).flatMap(({ steps }) => steps.flatMap(({ run }) => run ?? []));
  t.ok(commands.some((command) => command.includes('npm run package -- --release')));
  t.ok(commands.some((command) => command.includes('npm publish ./waybill-*.tgz --provenance')));
  t.end();
});

/** All packed files in a separate repository without a remote, with a dated CHANGELOG, and tagged. */
function cloneAtItsTag(t: Test): string {
  const clone = path.join(t.testdir({ clone: {} }), 'clone');
  const files = [
    ...[
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'package.json',
      'package-lock.json',
      '.gitignore',
    ],
    ...['deploy', 'docs', 'examples', 'man', 'schemas', 'templates', 'dist'],
  ];
  for (const file of files) cpSync(file, path.join(clone, file), { recursive: true });
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
  const changelog = readFileSync('CHANGELOG.md', 'utf8');
  const dated = changelog.replace(/^## .*$/m, `## [${version}] - 2026-11-25`);
  writeFileSync(path.join(clone, 'CHANGELOG.md'), dated);
  git(clone, 'init', '--quiet');
  git(clone, 'add', '--all');
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.org', '-c', 'commit.gpgsign=false'];
  git(clone, ...identity, 'commit', '--quiet', '--no-verify', '--message', version);
  git(clone, 'tag', `v${version}`);
  return clone;
}

function git(cwd: string, ...args: string[]): void {
  execFileSync('git', args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] });
}

function packIn(cwd: string, ...args: string[]): SpawnSyncReturns<string> {
  const program = path.resolve('scripts/package/pack.mjs');
  return spawnSync(process.execPath, [program, ...args], { cwd, encoding: 'utf8' });
}

function manifestIn(cwd: string, tarball: string): Record<string, unknown> {
  const args = ['-xzOf', tarball.trim(), 'package/package.json'];
  return JSON.parse(execFileSync('tar', args, { cwd, encoding: 'utf8' })) as Record<string, unknown>;
}
