import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { configuration, document, type Ended, fingerprint, manifest, waybill } from '../../../process.ts';

const layout = 'layout: releases, workflow: replacement';
const site = `id: site, backend: local, path: ./site, mapping: fixed, ${layout}`;
const each = `id: each, backend: local, path: ./each, ${layout}`;

interface Place {
  at: (...names: string[]) => string;
  run: (...args: string[]) => Ended;
  /**
   * Writes the n-th version of a bundle to the source and publishes it. Returns the release that is current.
   */
  publish: (n: number) => string;
}

function layOut(t: Test, destinations: string[] = [site], more = ''): Place {
  const base = t.testdir({ source: { maps: {} }, 'c.yml': configuration(destinations, more) });
  const at = (...names: string[]): string => path.join(base, ...names);
  const run = (...args: string[]): Ended => waybill([...args, '-c', at('c.yml')]);
  return {
    at,
    run,
    publish(n) {
      rmSync(at('source', 'maps'), { recursive: true, force: true });
      mkdirSync(at('source', 'maps', 'assets'), { recursive: true });
      const files = ['index.html', 'assets/same.css', `only-${n}.txt`];
      writeFileSync(at('source', 'maps', 'manifest.json'), manifest(files, `2026-11-2${n}T00:00:00Z`));
      writeFileSync(at('source', 'maps', 'index.html'), `version ${n}`);
      writeFileSync(at('source', 'maps', 'assets', 'same.css'), 'body {}');
      writeFileSync(at('source', 'maps', `only-${n}.txt`), `${n}`);
      const ended = run('run');
      t.equal(ended.status, 0, ended.stdout + ended.stderr);
      return existsSync(at('site')) ? path.basename(readlinkSync(at('site', 'current'))) : '';
    },
  };
}

const named = ['-p', 'maps', '-d', 'site'];

t.test('releases are published, listed, shown and compared', async (t) => {
  const { at, run, publish } = layOut(t);
  const dry = document(t, run('run', '--dry-run', '--format', 'json'));
  t.match(dry, { counters: { publish_new: 0 } });
  const first = publish(1);
  t.equal(readFileSync(at('site', 'current', 'index.html'), 'utf8'), 'version 1');
  const second = publish(2);
  t.equal(readFileSync(at('site', 'current', 'index.html'), 'utf8'), 'version 2');
  t.same(readdirSync(at('site', 'releases')).sort(), [first, second]);

  const listed = run('releases', 'list', ...named, '--format', 'json');
  t.match(document(t, listed), {
    paths: [
      {
        destination_path: '.',
        current: second,
        releases: [
          { id: second, is_current: true, outputs: 3, state: 'complete', bundle: { path: 'maps' } },
          { id: first, is_current: false, is_last_good: true },
        ],
      },
    ],
  });
  t.match(run('releases', 'list', ...named), {
    ...{ status: 0, stderr: '' },
    stdout: new RegExp(`→ +${second} .*current\n.*${first}.*a rollback goes here`),
  });
  t.equal(run('releases', 'list').stdout, run('releases', 'list', ...named).stdout, 'the only pipeline');
  t.match(run('releases', 'show', second, ...named), {
    ...{ status: 0, stdout: /only-2\.txt[^]*whole {2}2026.* 3 outputs/ },
  });
  t.match(document(t, run('releases', 'show', first, ...named, '--format', 'json')), {
    release: { id: first, files: [{ path: 'assets/same.css' }, {}, {}] },
    error: null,
  });
  t.match(run('releases', 'diff', first, ...named), {
    stdout: `add     only-2.txt\nchange  index.html\nremove  only-1.txt\n${first} → ${second}: 1 added, 1 changed, 1 removed, 1 output the same\n`,
  });
  t.match(document(t, run('releases', 'diff', second, first, ...named, '--format', 'json')), {
    ...{ from: second, to: first, added: ['only-1.txt'], changed: ['index.html'], same: 1 },
  });
  t.match(run('releases', 'diff', first, 'current', ...named), {
    stdout: new RegExp(`→ ${second}: 1 added`),
  });
  t.match(document(t, run('inspect', '-p', 'maps', '--format', 'json')), {
    destinations: [{ targets: [{ release: second, state: 'valid', outputs: 3 }] }],
  });
  t.match(document(t, run('verify', '--format', 'json')), {
    clean: true,
    destinations: [{ paths: [{ destination_path: `releases/${first}` }, {}] }],
  });
});

t.test('compares a release with the bundle that a directory would become', async (t) => {
  const { at, run, publish } = layOut(t);
  const diff = (...args: string[]): Ended => run('releases', 'diff', ...args, ...named);
  t.match(diff('--dir', at('source', 'maps')), { status: 2, stderr: /no current release/ });
  const first = publish(1);
  const second = publish(2);
  t.match(diff('--dir', at('source', 'maps')), {
    status: 0,
    stdout: `${second} → ${at('source', 'maps')}: 0 added, 0 changed, 0 removed, 3 outputs the same\n`,
  });
  mkdirSync(at('other', 'assets'), { recursive: true });
  writeFileSync(at('other', 'index.html'), 'version 3');
  writeFileSync(at('other', 'assets', 'same.css'), 'body {}');
  writeFileSync(at('other', 'new.txt'), 'new');
  const before = fingerprint(at('site'));
  t.match(diff('--dir', at('other')), {
    status: 0,
    stdout: `add     new.txt\nchange  index.html\nremove  only-2.txt\n${second} → ${at('other')}: 1 added, 1 changed, 1 removed, 1 output the same\n`,
  });
  t.match(document(t, diff(first, '--dir', at('other'), '--format', 'json')), {
    ...{ from: first, to: null, directory: at('other'), removed: ['only-1.txt'], same: 1 },
  });
  t.same(fingerprint(at('site')), before, 'nothing is written');
  writeFileSync(at('other', 'manifest.json'), manifest(['absent.txt']));
  t.match(diff('--dir', at('other')), { status: 1, stderr: /absent\.txt/ });
  t.match(diff('--dir', at('nowhere')), { status: 1, stderr: /nowhere/ });
  t.match(diff(first, second, '--dir', at('other')), { status: 2, stderr: /not with both/ });
  t.match(diff(), { status: 2, stderr: /name the release to compare/ });
});

t.test('an additive publication of a directory keeps the other files of the current release', async (t) => {
  const { at, run, publish } = layOut(t, [site.replace('replacement', 'additive')]);
  publish(1);
  mkdirSync(at('other'));
  writeFileSync(at('other', 'index.html'), 'version 2');
  const kept = run('releases', 'diff', '--dir', at('other'), ...named);
  t.match(kept.stdout, /0 added, 1 changed, 0 removed, 2 outputs the same/);
});

t.test('a run reports linked files and the new release', async (t) => {
  const { at, run, publish } = layOut(t);
  publish(1);
  writeFileSync(at('source', 'maps', 'index.html'), 'another');
  writeFileSync(
    at('source', 'maps', 'manifest.json'),
    manifest(['index.html', 'assets/same.css', 'only-1.txt'], '2026-11-21T00:00:00Z'),
  );
  const dryRun = run('run', '--dry-run');
  t.match(dryRun.stdout, /replace_catalog +1 file, 7 B, 2 linked, release 20261121T000000Z-[0-9a-f]{8}/);
  const done = document(t, run('run', '--format', 'json'));
  t.match(done, {
    pipelines: [
      {
        destinations: [
          {
            actions: [
              { outputs_written: 1, outputs_linked: 2, outputs_kept: 0, bytes_written: 7, bytes_linked: 8 },
            ],
          },
        ],
      },
    ],
  });
});

t.test('rolls back and forward, with and without a dry run, and notifies', async (t) => {
  const { at, run, publish } = layOut(
    t,
    [site],
    'notifiers: [{id: log, kind: file, path: ./events.jsonl, events: [release.activated, release.rolled_back]}]',
  );
  const [first, second] = [publish(1), publish(2)];
  const before = fingerprint(at('site'));
  const dry = run('releases', 'rollback', ...named, '--dry-run', '--format', 'json');
  t.match(document(t, dry), { dry_run: true, from: second, to: first, is_changed: true, error: null });
  t.same(fingerprint(at('site')), before, 'nothing was changed');

  t.match(run('releases', 'rollback', ...named), {
    ...{ status: 0, stderr: '' },
    stdout: new RegExp(
      `^rolled back {2}target=\\.: ${second} → ${first}\nnext +.*releases promote ${second} --config .*--destination site\n`,
    ),
  });
  t.equal(readFileSync(at('site', 'current', 'index.html'), 'utf8'), 'version 1');
  const held = run('run', '--format', 'json');
  t.equal(held.status, 3, 'the selected release is not current');
  t.match(run('run'), {
    status: 3,
    stderr: new RegExp(
      `note {2}site: readers still have another release, because ${second} was rolled back; to publish it: waybill releases promote ${second} --config \\S+c\\.yml --pipeline maps --destination site`,
    ),
  });
  t.match(document(t, held), {
    counters: { skip_same: 1 },
    pipelines: [{ destinations: [{ actions: [{ reason: { code: 'rolled_back' }, release: second }] }] }],
  });
  t.match(run('releases', 'list', ...named).stdout, new RegExp(`${second}.*rolled back`));

  const nothing = run('releases', 'rollback', ...named, '--format', 'json');
  t.equal(nothing.status, 1);
  t.match(document(t, nothing), {
    error: { code: 'release_unusable', hint: /releases rollback ID/ },
    is_changed: false,
  });

  const resumed = run('releases', 'resume', ...named, '--format', 'json');
  t.match(document(t, resumed), { action: 'resume', is_changed: false, resumed: [second] });
  t.match(run('releases', 'resume', ...named), { status: 0, stdout: /no release was rolled back/ });
  t.match(run('run').stdout, /replace_catalog/);
  t.equal(readFileSync(at('site', 'current', 'index.html'), 'utf8'), 'version 2');
  t.match(run('releases', 'promote', first, ...named), { status: 0, stdout: /^promoted/ });
  t.match(run('releases', 'promote', first, ...named), { status: 0, stdout: /is current already/ });
  const events = readFileSync(at('events.jsonl'), 'utf8').trim().split('\n');
  t.match(
    events.map((line) => JSON.parse(line) as object),
    [
      { type: 'release.rolled_back', data: { release: first, previous: second, destination_path: '.' } },
      { type: 'release.activated', data: { release: first, previous: second } },
    ],
  );
  t.equal(events.length, 2);
});

t.test('reports an unknown id, a damaged release, and a destination without releases', async (t) => {
  const { at, run, publish } = layOut(t, [site, 'id: plain, backend: local, path: ./plain']);
  const [first, second] = [publish(1), publish(2)];
  const typo = `${first.slice(0, -1)}${first.endsWith('0') ? '1' : '0'}`;
  t.match(run('releases', 'rollback', '--to', typo, ...named), {
    ...{ status: 2, stdout: '', stderr: new RegExp(`next +did you mean "${first}"`) },
  });
  rmSync(at('site', 'releases', first, 'index.html'));
  const refused = run('releases', 'rollback', ...named);
  t.equal(refused.status, 1);
  t.match(
    refused.stdout,
    new RegExp(`^failed.*${first} is damaged: "index.html" is missing.*\nnext +.*--repair`),
  );
  t.equal(path.basename(readlinkSync(at('site', 'current'))), second);
  t.match(run('releases', 'show', first, ...named), { status: 1, stdout: /is damaged: "index.html"/ });
  t.match(run('releases', 'list', '-p', 'maps', '-d', 'plain'), {
    ...{ status: 2, stderr: /published in place[^]*layout: releases/ },
  });
  t.match(run('releases', 'list', '-p', 'maps'), { status: 2, stderr: /name one/ });
  t.match(run('prune', ...named, '--dry-run'), { status: 2, stderr: /releases\.keep/ });
  t.match(run('reconcile-state', ...named), { status: 0, stdout: /a release does not change.*--repair/ });
});

t.test('selects one of several bundle paths', async (t) => {
  const { at, run, publish } = layOut(t, [each]);
  publish(1);
  const where = ['-p', 'maps', '-d', 'each'];
  t.match(run('releases', 'list', ...where).stdout, /^target=maps {2}1 release\n/);
  t.match(run('releases', 'rollback', ...where), {
    status: 1,
    stdout: /"maps": there is no earlier release/,
  });
  mkdirSync(at('source', 'other'));
  writeFileSync(at('source', 'other', 'manifest.json'), manifest(['a.txt']));
  writeFileSync(at('source', 'other', 'a.txt'), 'a');
  publish(2);
  t.match(run('releases', 'rollback', ...where), { status: 2, stderr: /--path maps \| other/ });
  t.match(run('releases', 'rollback', ...where, '--path', 'maps/'), { status: 0 });
  t.equal(readFileSync(at('each', 'maps', 'current', 'index.html'), 'utf8'), 'version 1');
  t.same(
    (
      document(t, run('releases', 'list', ...where, '--format', 'json')) as {
        paths: { destination_path: string }[];
      }
    ).paths.map((one) => one.destination_path),
    ['maps', 'other'],
  );
  const taken = run('unpublish', 'maps', ...where, '--format', 'json');
  t.equal(taken.status, 0);
  t.match(document(t, taken), { removes_catalog: true, releases: [/^2026/, /^2026/] });
  t.same(readdirSync(at('each')), ['other']);
});

t.test('removes orphans with their releases', async (t) => {
  const { at, run, publish } = layOut(t, [`${each}, orphans: remove`]);
  publish(1);
  mkdirSync(at('source', 'other'));
  writeFileSync(at('source', 'other', 'manifest.json'), manifest(['a.txt']));
  writeFileSync(at('source', 'other', 'a.txt'), 'a');
  t.equal(run('run').status, 0);
  rmSync(at('source', 'other'), { recursive: true });
  t.match(run('run', '--dry-run').stdout, /other/);
  t.ok(existsSync(at('each', 'other', 'current')));
  t.equal(run('run').status, 0);
  t.same(readdirSync(at('each')), ['maps']);
});

t.test('rejects settings that do not apply to releases', async (t) => {
  const faults = (settings: string): string => {
    const place = t.testdir({ 'c.yml': configuration([`id: d, backend: local, path: ./d, ${settings}`]) });
    const { status, stdout, stderr } = waybill(['config', 'check', '-c', path.join(place, 'c.yml')]);
    return `${status ?? ''} ${stdout}${stderr}`;
  };
  t.match(faults('layout: releases'), /^0/);
  t.match(faults('layout: releases, releases: {keep: 0, linger: 0s, current_in_url: true}'), /^0/);
  t.match(faults('releases: {keep: 2}'), /^2[^]*destinations\[0\]\.releases.*set layout: releases/);
  t.match(
    faults('layout: releases, retention: {prune: {enabled: true, keep_latest: 1}}'),
    /^2[^]*retention\.prune\.enabled.*releases\.keep/,
  );
  t.match(faults('layout: release'), /^2[^]*in_place[^]*releases/);
});

t.test('a channel is published to, listed, promoted, deleted, and removed when it expires', async (t) => {
  const { at, run, publish } = layOut(t, [`${site}, releases: {channels: {preview: {ttl: 1d}}}`, each]);
  const first = publish(1);
  const dry = document(t, run('run', '--channel', 'preview', '--dry-run', '--format', 'json'));
  t.match(dry, { pipelines: [{ destinations: [{ actions: [{ channel: 'preview', release: first }] }] }] });
  t.notOk(existsSync(at('site', 'preview')), 'a dry run changes nothing');
  rmSync(at('each'), { recursive: true });
  writeFileSync(at('source', 'maps', 'index.html'), 'version 2');
  writeFileSync(at('source', 'maps', 'manifest.json'), manifest(['index.html'], '2026-11-22T00:00:00Z'));
  rmSync(at('source', 'maps', 'assets'), { recursive: true });
  rmSync(at('source', 'maps', 'only-1.txt'));
  const ended = run('run', '--channel', 'preview', '--out', at('plan.json'), '--dry-run');
  t.equal(ended.status, 0, ended.stderr);
  const done = document(t, run('run', '--plan', at('plan.json'), '--format', 'json'));
  t.match(done, {
    pipelines: [{ destinations: [{ destination_id: 'site', actions: [{ action: 'replace_catalog' }] }] }],
  });
  t.notOk(existsSync(at('each')), 'a destination without that channel is unchanged');
  t.equal(readFileSync(at('site', 'preview', 'index.html'), 'utf8'), 'version 2');
  t.equal(readFileSync(at('site', 'current', 'index.html'), 'utf8'), 'version 1');
  const shown = path.basename(readlinkSync(at('site', 'preview')));

  const listed = document(t, run('releases', 'list', ...named, '--format', 'json'));
  t.match(listed, {
    paths: [
      {
        current: first,
        channels: [{ name: 'preview', release: shown }],
        releases: [
          { id: shown, channels: ['preview'], is_current: false },
          { id: first, channels: { length: 0 } },
        ],
      },
    ],
  });
  t.match(run('releases', 'list', ...named).stdout, new RegExp(`channel preview → ${shown}, until 20`));
  t.match(run('releases', 'diff', first, 'preview', ...named), { status: 0, stdout: /only-1\.txt/ });
  t.equal(run('verify', ...named).status, 0);
  const reconciled = run('reconcile-state', '--dry-run', ...named, '--format', 'json');
  t.notMatch(reconciled.stdout, /"preview"/, 'a pointer is not reported as unmanaged');

  t.match(run('releases', 'drop', 'perview', ...named), {
    ...{
      status: 2,
      stderr: /no channel named "perview" at the destination root[^]*did you mean "preview"\?/,
    },
  });
  t.match(run('releases', 'drop', 'preview', ...named, '--dry-run'), {
    status: 0,
    stdout: /nothing was changed/,
  });
  t.ok(existsSync(at('site', 'preview')));
  t.match(run('releases', 'promote', 'preview', ...named), { status: 0, stdout: new RegExp(`→ ${shown}`) });
  t.equal(readFileSync(at('site', 'current', 'index.html'), 'utf8'), 'version 2');
  const dropped = document(t, run('releases', 'drop', 'preview', ...named, '--format', 'json'));
  t.match(dropped, { action: 'drop', from: shown, to: null, is_changed: true });
  t.notOk(existsSync(at('site', 'preview')));

  t.equal(run('run', '--channel', 'preview').status, 0);
  const ledger = at('site', '.publisher.releases.json');
  const past = readFileSync(ledger, 'utf8').replace(
    /"expires_at": "[^"]+"/,
    '"expires_at": "2026-01-01T00:00:00Z"',
  );
  writeFileSync(ledger, past);
  const due = document(t, run('releases', 'tidy', ...named, '--dry-run', '--format', 'json'));
  t.match(due, {
    dry_run: true,
    paths: [{ destination_path: '.', channels: ['preview'], releases: { length: 0 } }],
  });
  t.ok(existsSync(at('site', 'preview')));
  t.match(run('releases', 'tidy', ...named), { status: 0, stdout: /target=\.: channel preview/ });
  t.notOk(existsSync(at('site', 'preview')));
  t.match(run('releases', 'tidy', ...named), { status: 0, stderr: /nothing to remove/ });
});

t.test('rejects an unknown channel and an invalid channel name', async (t) => {
  const { run } = layOut(t, [`${site}, releases: {channels: {preview: {}}}`]);
  t.match(run('run', '--channel', 'staging'), {
    ...{ status: 2, stderr: /no channel named "staging"[^]*known: preview/ },
  });
  t.match(run('run', '--plan', 'x.json', '--channel', 'preview'), {
    status: 2,
    stderr: /cannot be combined with --channel/,
  });
  for (const name of ['current', 'releases', 'Preview', '-a', 'a/b', '.publisher']) {
    const wrong = layOut(t, [`${site}, releases: {channels: {"${name}": {}}}`]);
    t.match(wrong.run('run'), {
      ...{ status: 2, stderr: /is not a valid name here; expected up to 63 lower-case/ },
    });
  }
  const none = layOut(t, [each]);
  t.match(none.run('run', '--channel', 'preview'), {
    ...{ status: 2, stderr: /no channel named "preview"[^]*releases\.channels/ },
  });
});
