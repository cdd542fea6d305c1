import t from 'tap';
import { matchesGlob, ruleWeakness, violatedClaims } from '../../../src/core/publishers/claim-rules.ts';
import { publishedBy } from '../../../src/core/publishers/published-by.ts';
import { buildkite, circleci, github, gitlab } from '../../fixtures/id-token-claims.ts';

t.test('documented claim sets match the rules that docs/how-to suggests', (t) => {
  const rules = {
    repository_id: '74',
    repository_owner_id: '65',
    ref: 'refs/heads/main',
    environment: 'prod',
  };
  t.same(violatedClaims(rules, github), []);
  t.same(violatedClaims({ ...rules, repository_id: '75', ref: ['refs/heads/dev'] }, github), [
    'repository_id',
    'ref',
  ]);
  t.same(violatedClaims({ project_id: '20', ref_path: { glob: 'refs/heads/feature-*' } }, gitlab), []);
  t.same(violatedClaims({ runner_id: '1', groups_direct: 'mygroup/mysubgroup' }, gitlab), [
    'runner_id',
    'groups_direct',
  ]);
  t.same(
    violatedClaims({ organization_id: buildkite.organization_id, build_branch: ['main', 'next'] }, buildkite),
    [],
  );
  t.same(violatedClaims({ 'oidc.circleci.com/project-id': '77ab' }, circleci), []);
  t.end();
});

t.test('only own claims with a string value match', (t) => {
  for (const value of [1, true, null, ['x'], { glob: 'x' }, undefined, 'X', ' x', 'x ', 'xx', ''])
    t.same(violatedClaims({ claim: 'x' }, { claim: value }), ['claim'], JSON.stringify(value));
  t.same(violatedClaims({ constructor: 'x', toString: { glob: '*' } }, {}), ['constructor', 'toString']);
  t.end();
});

t.test('a star matches any characters but a slash', (t) => {
  for (const [pattern, yes, no] of [
    ['refs/tags/v*', ['refs/tags/v', 'refs/tags/v1.2'], ['refs/tags/v1/x', 'refs/tags/w', 'refs/heads/v1']],
    ['*', ['', 'main'], ['a/b']],
    ['a*b', ['ab', 'aXb', 'abb'], ['a', 'b', 'abc']],
    ['aa*aa', ['aaaa', 'aabaa'], ['aaa', 'aa']],
    ['*a*b*', ['ab', 'xaybz'], ['ba']],
    ['a.c', ['a.c'], ['abc']],
    ['*/x', ['y/x', '/x'], ['x', 'a/b/x']],
  ] as const) {
    for (const value of yes) t.ok(matchesGlob(pattern, value), `${pattern} matches ${value}`);
    for (const value of no) t.notOk(matchesGlob(pattern, value), `${pattern} does not match ${value}`);
  }
  t.end();
});

t.test('rules that identify a publisher only by names are weak', (t) => {
  const hub = 'https://token.actions.githubusercontent.com';
  const own = 'https://ci.example.org';
  for (const [issuer, rules, remedy] of [
    [hub, { repository: 'octo-org/octo-repo' }, /repository_id or repository_owner_id/],
    [hub, { repository: 'octo-org/octo-repo', repository_id: { glob: '*' } }, /exact value of repository_id/],
    [hub, { sub: 'repo:octo-org/octo-repo:ref:refs/heads/main' }, /exact value of repository_id/],
    [hub, { ref: 'refs/heads/main' }, /exact value of repository_id/],
    [`${hub}/octo-enterprise`, { repository_owner: 'octo-org' }, /repository_owner_id/],
    ['https://gitlab.com', { project_path: 'my-group/my-project' }, /exact value of project_id/],
    ['https://gitlab.com', { ref: 'main' }, /project_id or namespace_id/],
    ['https://gitlab.example.org', { project_path: 'my-group/my-project' }, /project_id/],
    ['https://agent.buildkite.com', { pipeline_slug: 'site' }, /pipeline_id/],
    [own, { 'oidc.circleci.com/vcs-origin': 'github.com/acme/site' }, /project-id/],
    [own, {}, /a claim or more/],
  ] as const)
    t.match(ruleWeakness(issuer, rules)?.expected, remedy, JSON.stringify(rules));
  for (const [issuer, rules] of [
    [hub, { repository_id: '74', repository: 'octo-org/octo-repo' }],
    [hub, { repository_owner_id: ['65', '66'], environment: 'prod' }],
    ['https://gitlab.com', { project_id: '20', project_path: 'my-group/my-project' }],
    [own, { sub: 'job' }],
  ] as const)
    t.equal(ruleWeakness(issuer, rules), null, JSON.stringify(rules));
  t.end();
});

t.test('finds the use claims in the token of each CI system', (t) => {
  const of = (claims: object): object => publishedBy('site', { ...claims }, 'sha256:0');
  t.match(of(github), {
    repository: 'octo-org/octo-repo',
    ref: 'refs/heads/main',
    sha: 'example-sha',
    ci_run_id: 'example-run-id',
  });
  t.match(of(gitlab), {
    repository: 'my-group/my-project',
    ref: 'feature-branch-1',
    sha: gitlab.sha,
    ci_run_id: '574',
  });
  t.match(of(buildkite), {
    repository: 'super-duper-app',
    ref: 'main',
    sha: buildkite.build_commit,
    ci_run_id: '1',
  });
  t.match(of(circleci), {
    repository: 'github.com/acme/site',
    ref: 'refs/heads/main',
    sha: null,
    ci_run_id: 'a1b2',
  });
  const hostile = of({ sub: `a\nb\u2028${'x'.repeat(500)}`, repository: ['list'] }) as Record<
    string,
    string | null
  >;
  t.equal(hostile['subject']?.length, 200);
  t.match(hostile, { subject: /^a b x/, repository: null });
  t.end();
});
