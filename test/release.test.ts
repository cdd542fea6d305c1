import { spawnSync } from 'node:child_process';
import t from 'tap';
import { releaseProblems } from '../scripts/package/release.mjs';

const ready = {
  manifest: {
    version: '1.2.3',
    repository: 'https://example.org/waybill.git',
    publishConfig: { provenance: true },
  },
  changelog: '# Changelog\n\n## [1.2.3] - 2026-11-25\n\n### Added\n',
  tags: ['v1.2.3'],
  changes: [],
};

t.test('what keeps a version from being published is told, all at once', (t) => {
  t.same(releaseProblems(ready), []);
  t.match(releaseProblems({ ...ready, changelog: '## [Unreleased] 1.2.3\n' }), [/CHANGELOG.*\[Unreleased\]/]);
  t.match(releaseProblems({ ...ready, changelog: '## [1.2.30] - 2026-11-25\n' }), [/CHANGELOG/]);
  t.match(releaseProblems({ ...ready, changelog: '## [1x2.3] - 2026-11-25\n' }), [/CHANGELOG/]);
  const manifest = { version: '1.2.3', publishConfig: { provenance: true } };
  t.match(releaseProblems({ ...ready, manifest }), [/no repository/]);
  t.match(releaseProblems({ ...ready, tags: ['v1.2.2'], changes: ['src/a.ts'] }), [
    /no tag v1\.2\.3/,
    /src\/a/,
  ]);
  t.end();
});

t.test('nothing is packed for a release that is not ready', (t) => {
  const place = t.testdir({});
  const { status, stderr, stdout } = spawnSync(
    process.execPath,
    ['scripts/package/pack.mjs', '--release', place],
    { encoding: 'utf8' },
  );
  // Of a clone at a tag, ready or not, this says nothing.
  if (status === 0) t.match(stdout, /\.tgz$/m);
  else t.match(stderr, /^not ready to be published:\n {2}\S/);
  t.end();
});
