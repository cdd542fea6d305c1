import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { revisionMetadata, revisionOfCi } from '../../../../src/cli/commands/remote/git-revision.ts';
import { publisherText, revisionText } from '../../../../src/cli/output/run-record-text.ts';
import { maxMessageChars } from '../../../../src/core/bundle/source-bundle.ts';
import { ensureInstalled } from '../../../services/debian.ts';

t.test('CI variables name commit, branch and author, without an e-mail address', async (t) => {
  const github = { GITHUB_ACTIONS: 'true', GITHUB_SHA: '1a2b', GITHUB_REF_NAME: 'main', GITHUB_ACTOR: 'ada' };
  t.same(revisionOfCi(github), { commit: '1a2b', branch: 'main', author: 'ada' });
  const pullRequest = { ...github, GITHUB_REF_NAME: '12/merge', GITHUB_HEAD_REF: 'title' };
  t.equal(revisionOfCi(pullRequest)?.['branch'], 'title');
  t.same(
    revisionOfCi({
      ...{ GITLAB_CI: 'true', CI_COMMIT_SHA: '1a2b', CI_COMMIT_REF_NAME: 'main' },
      CI_COMMIT_AUTHOR: 'Ada Lovelace <ada@example.org>',
    }),
    { commit: '1a2b', branch: 'main', author: 'Ada Lovelace' },
  );
  t.equal(revisionOfCi({ GITHUB_SHA: '1a2b' }), undefined, 'a variable alone does not indicate a CI system');
});

t.test('git provides them elsewhere, also in subdirectories, but never the remote', async (t) => {
  await ensureInstalled('git');
  const place = t.testdir({ home: {}, repository: { site: { 'index.html': '<p>' } }, outside: {} });
  const environment = { PATH: process.env['PATH'], HOME: path.join(place, 'home') };
  const repository = path.join(place, 'repository');
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', repository, ...args], { env: environment, encoding: 'utf8' }).trim();
  git('init', '--quiet', '--initial-branch', 'title');
  const site = path.join(repository, 'site');
  t.same(await revisionMetadata(site, { git: true }, environment), {}, 'without a commit');
  git('config', 'user.name', 'Ada Lovelace');
  git('config', 'user.email', 'ada@example.org');
  git('remote', 'add', 'origin', 'https://ada:s3cret@git.example.org/site.git');
  git('add', '.');
  git('commit', '--quiet', '--message', 'first');
  const commit = git('rev-parse', 'HEAD');
  const found = { commit, branch: 'title', author: 'Ada Lovelace' };
  t.same(await revisionMetadata(site, { git: true }, environment), found);
  t.same(await revisionMetadata(site, { git: true, message: 'Hi' }, environment), {
    ...found,
    message: 'Hi',
  });
  t.same(await revisionMetadata(site, { git: false, message: 'Hi' }, environment), { message: 'Hi' });
  git('checkout', '--quiet', '--detach');
  t.same(await revisionMetadata(site, { git: true }, environment), { commit, author: 'Ada Lovelace' });
  // A repository named by a variable is not the directory's repository.
  const other = { ...environment, GIT_DIR: path.join(repository, '.git'), GIT_CEILING_DIRECTORIES: place };
  writeFileSync(path.join(place, 'outside/a.txt'), 'a');
  t.not((await revisionMetadata(path.join(place, 'outside'), { git: true }, other))['commit'], commit);
});

t.test('a message is one line of text', async (t) => {
  for (const message of ['', '  ', 'two\nlines', 'a\u001b[2J', 'x'.repeat(maxMessageChars + 1)])
    await t.rejects(revisionMetadata('.', { git: false, message }, {}), {
      code: 'usage',
      message: /^--message /,
      hint: /one line of at most 500 characters/,
    });
  t.same(await revisionMetadata('.', { git: false, message: 'Überschrift 😀' }, {}), {
    message: 'Überschrift 😀',
  });
});

t.test('runs show prints the known parts', async (t) => {
  const nothing = { message: null, commit: null, branch: null, author: null };
  const whole = { message: 'Fix the title', commit: '1a2b3c4d'.repeat(5), branch: 'main', author: 'Ada' };
  t.equal(revisionText(whole), '1a2b3c4d1a2b on main by Ada: Fix the title');
  t.equal(revisionText({ ...nothing, message: 'Fix the title' }), 'Fix the title');
  t.equal(revisionText({ ...nothing, commit: 'v7' }), 'v7');
  t.equal(revisionText(null), '');
});

t.test('the trusted publisher of a run is one line, without unknown parts', (t) => {
  const unknown = {
    publisher_id: 'site-ci',
    subject: null,
    repository: null,
    ref: null,
    sha: null,
    ci_run_id: null,
  };
  const by = { ...unknown, claims_digest: 'sha256:0' };
  t.equal(publisherText(null), null);
  t.equal(publisherText(by), 'publisher site-ci');
  t.equal(publisherText({ ...by, ci_run_id: '77' }), 'publisher site-ci: CI run 77');
  const whole = { ...by, repository: 'octo-org/site', ref: 'refs/heads/main', ci_run_id: '77' };
  t.equal(publisherText(whole), 'publisher site-ci: octo-org/site refs/heads/main, CI run 77');
  t.end();
});
