import { readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { startDaemon } from '../../daemon.ts';
import { document, type Ended, errorDocument, waybill } from '../../process.ts';

/** Commands that get from a daemon what they otherwise read from a configuration, and `runs start`. */

const tokens = {
  TOKEN_ALL: 'a-token-of-only-one-pipeline',
  TOKEN_READS: 'a-token-that-may-read-and-no-more',
  TOKEN_SENDS: 'a-token-that-may-only-upload',
  TOKEN_BOTH: 'a-token-of-both-the-pipelines',
};
const config = `upload_tokens:
  - {id: all, value_env: TOKEN_ALL, pipelines: [handbook]}
  - {id: reads, value_env: TOKEN_READS, pipelines: [handbook], scopes: [read]}
  - {id: sends, value_env: TOKEN_SENDS, pipelines: [handbook], scopes: [upload]}
  - {id: both, value_env: TOKEN_BOTH, pipelines: [handbook, uploads]}
server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}
pipelines:
  - id: handbook
    source: {backend: local, path: ./site, manifest: auto}
    destinations:
      - {id: plain, backend: local, path: ./plain, mapping: fixed}
      - {id: web, backend: local, path: ./web, mapping: fixed, workflow: replacement, layout: releases}
  - {id: uploads, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./up}]}
`;

const place = t.testdir({ 'c.yml': config, site: { 'index.html': 'version 1' } });
const { url } = await startDaemon(t, place, tokens);
const env = { WAYBILL_URL: url, WAYBILL_TOKEN: tokens.TOKEN_ALL };
const run = (args: string[], more: Record<string, string> = {}): Ended =>
  waybill(args, { cwd: place, env: { ...env, ...more } });
const current = (): string => path.basename(readlinkSync(path.join(place, 'web/current')));

t.test("runs start: publishes the source of the token's only pipeline", (t) => {
  t.match(run(['runs', 'start']), {
    status: 0,
    stdout: /^succeeded {2}handbook\.\S+ /,
    stderr: /^note {2}accepted as handbook\.\S+; waiting for the result\n/,
  });
  writeFileSync(path.join(place, 'site/index.html'), 'version 2, longer');
  const started = run(['runs', 'start', '--to', url, '-p', 'handbook', '--format', 'json']);
  t.match(document(t, started), { kind: 'run-start', pipeline_id: 'handbook', run: { status: 'succeeded' } });
  t.match(run(['runs', 'start'], { WAYBILL_TOKEN: tokens.TOKEN_BOTH }), {
    status: 2,
    stderr: /2 pipelines: name one with --pipeline\nnext {3}--pipeline handbook \| uploads\n/,
  });
  t.match(run(['runs', 'start', '-p', 'uploads'], { WAYBILL_TOKEN: tokens.TOKEN_BOTH }), {
    status: 1,
    stderr: /no source to read/,
  });
  t.match(run(['runs', 'start', '-p', 'handbook'], { WAYBILL_TOKEN: tokens.TOKEN_READS }), {
    status: 2,
    stderr: /scope/,
  });
  t.match(run(['runs', 'start'], { WAYBILL_TOKEN: tokens.TOKEN_SENDS }), {
    status: 2,
    stderr: /add --pipeline/,
  });
  t.end();
});

t.test('releases: the daemon and the configuration give the same documents and texts', (t) => {
  const here = ['-c', 'c.yml', '-p', 'handbook', '-d', 'web'];
  const second = current();
  const same = (...args: string[]): Record<string, unknown> => {
    const [remote, read] = [args, [...args, ...here]].map((each) =>
      document(t, run([...each, '--format', 'json'])),
    );
    t.same(remote, read, `${args.join(' ')}, as JSON`);
    return remote as Record<string, unknown>;
  };
  t.same(run(['releases', 'list']), run(['releases', 'list', ...here]));
  const [listed] = same('releases', 'list')['paths'] as { releases: { id: string }[] }[];
  const [, first = ''] = listed?.releases.map(({ id }) => id) ?? [];
  t.match(same('releases', 'show', 'current'), { release: { id: second, files: [{ path: 'index.html' }] } });
  t.match(same('releases', 'diff', first), { from: first, to: second, changed: ['index.html'] });

  t.match(run(['releases', 'rollback', '--dry-run']), { status: 0, stdout: /nothing was changed/ });
  t.equal(current(), second);
  t.match(run(['releases', 'rollback', '--to', url]), {
    status: 0,
    stdout: new RegExp(
      `^rolled back .* → ${first}\nnext +.*: waybill releases promote ${second} --to ${url}`,
    ),
  });
  t.equal(current(), first);
  const none = run(['releases', 'rollback', '--format', 'json']);
  t.equal(none.status, 1);
  t.match(document(t, none), { kind: 'release-switch', error: { code: 'release_unusable' } });
  t.match(run(['releases', 'promote', second, '-p', 'handbook', '-d', 'web']), { status: 0, stdout: second });
  t.match(run(['releases', 'rollback', first]), { status: 0 });
  t.match(run(['releases', 'rollback', '--to', second, ...here]), { status: 0 }, 'a release after --to');
  t.equal(current(), second);
  t.end();
});

t.test('releases: names each error', (t) => {
  const wrong: [string[], RegExp, Record<string, string>?][] = [
    [
      ['releases', 'show', 'gone'],
      /no release or channel named "gone" at the destination root\nnext .*known: 20/,
    ],
    [['releases', 'list', '-p', 'handbok'], /no pipeline "handbok"; did you mean "handbook"\?/],
    [
      ['releases', 'list', '-d', 'wbe'],
      /named "wbe" in the pipeline "handbook"\nnext .*did you mean "web"\?/,
    ],
    [['releases', 'list', '-d', 'plain'], /published in place/],
    [['releases', 'promote', 'current'], /scope/, { WAYBILL_TOKEN: tokens.TOKEN_READS }],
    [['releases', 'list'], /next .*WAYBILL_TOKEN/, { WAYBILL_TOKEN: 'a-token-that-nobody-has-given-out' }],
    [['releases', 'diff', '--dir', 'site'], /next .*waybill push site --to \S+ --dry-run/],
    [['releases', 'list', '-c', 'c.yml', '--to', url], /--config and --to cannot be combined/],
    [['releases', 'list'], /--config <file> or --to <url>/, { WAYBILL_URL: '' }],
    [['runs', 'list', '--since', 'soon'], /--since: "soon" is not[^]*next .*yesterday/],
  ];
  for (const [args, said, more] of wrong)
    t.match(run(args, more), { stdout: '', stderr: said }, args.join(' '));
  const refused = run(['releases', 'show', 'gone', '--format', 'json']);
  t.equal(refused.status, 2);
  t.match(errorDocument(t, refused), { error: { code: 'release_not_found' } });
  t.end();
});

t.test('runs list: --since and --until accept words, durations and dates', (t) => {
  const listed = (...args: string[]): number =>
    run(['runs', 'list', ...args])
      .stdout.split('\n')
      .filter((line) => line !== '').length;
  const all = listed();
  t.not(all, 0);
  t.equal(listed('--since', 'yesterday'), all);
  t.equal(listed('--since', '1d', '--until', '2026-01-01'), 0);
  t.end();
});

t.test('completion: ids come from the daemon', (t) => {
  const words = (...line: string[]): string[] =>
    run(['completion', 'words', '--', ...line])
      .stdout.split('\n')
      .flatMap((each) => (each === '' ? [] : [each.split('\t')[0] ?? '']));
  t.same(words('releases', 'list', '-p', ''), ['handbook']);
  t.same(words('releases', 'list', '--to', url, '--pipeline=h'), ['--pipeline=handbook']);
  t.same(words('releases', 'list', '-d', ''), ['plain', 'web']);
  t.same(words('releases', 'list', '--to', 'http://127.0.0.1:1', '-p', ''), [], 'no daemon');
  t.end();
});

t.test('push: a file that is no archive is named as it is, even if the name has a "$&"', (t) => {
  writeFileSync(path.join(place, 'a $& b'), 'x');
  t.match(run(['push', 'a $& b', '-p', 'uploads'], { WAYBILL_TOKEN: tokens.TOKEN_BOTH }), {
    status: 1,
    stderr: /^error {2}"a \$& b": the upload is not a tar archive\n/,
  });
  t.end();
});

t.test('errors of the command line are reported before the daemon is contacted', (t) => {
  const away = { WAYBILL_URL: 'http://127.0.0.1:1' };
  const errors: [args: string[], message: string][] = [
    [['push', 'missing'], 'error  "missing" does not exist\n'],
    [['releases', 'diff', '--dir', 'site'], 'error  a daemon cannot read "site" to compare it\n'],
  ];
  for (const [args, message] of errors) {
    const { status, stderr } = run(args, away);
    t.equal(status, 2, args.join(' '));
    t.ok(stderr.startsWith(message), stderr);
  }
  t.end();
});
