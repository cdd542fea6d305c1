import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import {
  configuration,
  document,
  errorDocument,
  fingerprint,
  manifest,
  program,
  root,
  waybill,
  web,
} from '../../process.ts';

interface RunDocument {
  counters: Record<string, number>;
  warnings: { code: string; message: string }[];
  pipelines: {
    status: string;
    warnings: { code: string }[];
    invalid_bundles: {
      bundle: string;
      error: { findings: { file: string; line: number; message: string }[] };
    }[];
    error: { code: string } | null;
    destinations: {
      destination_id: string;
      status: string;
      warnings: { code: string; message: string }[];
      actions: {
        destination_path: string;
        action: string;
        outputs: { path: string; url: string | null }[];
        changes: { path: string; fate: string; why: string }[];
        error: { code: string; hint: string } | null;
      }[];
      error: { code: string } | null;
    }[];
  }[];
}

function runDocument(...from: Parameters<typeof document>): RunDocument {
  return document(...from) as RunDocument;
}

const source = {
  one: { 'manifest.json': manifest(['a.txt', 'sub/b.txt']), 'a.txt': 'a', sub: { 'b.txt': 'b' } },
  two: { 'manifest.json': manifest(['a.txt'], '2026-11-21T00:00:00Z'), 'a.txt': 'newer' },
};

t.test('publishes, then changes nothing, with both mappings', async (t) => {
  const place = t.testdir({
    source,
    'c.yml': configuration([
      `${web}, outputs: {checksums: true}, public_base_url: "https://maps.example.org/x"`,
      root,
    ]),
  });
  const config = path.join(place, 'c.yml');
  const first = waybill(['run', '--config', config, '--format', 'json']);
  t.equal(first.status, 0);
  t.equal(first.stderr, '', 'warnings are inside the document');
  const { counters, pipelines } = runDocument(t, first);
  t.match(counters, { publish_new: 3, skip_same: 0, failed_destinations: 0 });
  const [published] = pipelines;
  t.same(
    published?.destinations.map(({ destination_id, actions }) => [
      destination_id,
      actions.map(({ destination_path }) => destination_path),
    ]),
    [
      ['web', ['one', 'two']],
      ['root', ['.']],
    ],
  );
  t.equal(
    published?.destinations[0]?.actions[0]?.outputs.find(({ path: name }) => name === 'sub/b.txt')?.url,
    'https://maps.example.org/x/one/sub/b.txt',
  );
  t.match(published?.destinations[1]?.warnings, [
    { code: 'fixed_bundle_selected', message: /target=\.: "two"/ },
  ]);
  t.equal(readFileSync(path.join(place, 'root/a.txt'), 'utf8'), 'newer', 'the newest bundle is at the root');
  t.match(
    execFileSync('sha256sum', ['-c', 'SHA256SUMS'], { cwd: path.join(place, 'web/one'), encoding: 'utf8' }),
    /a\.txt: OK\nsub\/b\.txt: OK/,
  );

  const before = fingerprint(place);
  const second = waybill(['run', '--config', config, '--format', 'json']);
  t.equal(second.status, 0);
  t.match(runDocument(t, second).counters, { publish_new: 0, skip_same: 3 });
  t.same(fingerprint(place), before, 'nothing was changed');
});

t.test('prints the run as text', async (t) => {
  const place = t.testdir({ source, 'c.yml': configuration([web, root]) });
  const { status, stdout, stderr } = waybill(['run', '-c', 'c.yml'], { cwd: place });
  t.equal(status, 0);
  t.equal(
    stdout.replaceAll(place, 'PLACE').replace(/ in [\d.]+ s /, ' in TIME '),
    [
      'maps  2 bundles',
      '  web  PLACE/web',
      '    + target=one  publish_new  2 files, 2 B',
      '    + target=two  publish_new  1 file, 5 B',
      '  root  PLACE/root',
      '    + target=.  publish_new  1 file, 5 B',
      'published 3, unchanged 0, failed 0 in TIME (12 B)  publish_new=3',
      '',
    ].join('\n'),
  );
  t.match(stderr, /warning {2}.*target=\.: "two"/);
  t.notMatch(stdout + stderr, '\u001b[', 'no colors without a terminal');
});

t.test('--dry-run makes the same decisions and changes nothing', async (t) => {
  const place = t.testdir({ source, 'c.yml': configuration([web, root]) });
  const before = fingerprint(place);
  const dry = runDocument(
    t,
    waybill(['run', '-c', 'c.yml', '--dry-run', '--format', 'json'], { cwd: place }),
  );
  t.same(fingerprint(place), before);
  t.match(dry.counters, { publish_new: 3 });
  t.same(dry.pipelines[0]?.destinations[0]?.actions[0]?.changes, [
    { path: 'a.txt', fate: 'add', why: 'not_recorded' },
    { path: 'sub/b.txt', fate: 'add', why: 'not_recorded' },
  ]);
  const text = waybill(['run', '-c', 'c.yml', '--dry-run'], { cwd: place });
  t.match(text.stdout, /\+ sub\/b\.txt/);
  t.match(text.stdout, /dry run, nothing was written/);
  t.same(fingerprint(place), before);
});

t.test('unmanaged content is rejected with a fix, and force replaces only the bundle path', async (t) => {
  const place = t.testdir({
    source,
    web: { one: { 'theirs.txt': 'theirs', deep: { er: 'x' } }, sibling: 'stays' },
    'c.yml': configuration([web]),
  });
  const refused = waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(refused.status, 1);
  const printed = runDocument(t, refused);
  t.match(
    printed.counters,
    { fail_unmanaged: 1, publish_new: 1, failed_destinations: 1 },
    'the other bundle is published',
  );
  t.match(printed.pipelines[0]?.destinations[0]?.actions[0]?.error, {
    code: 'unmanaged_content',
    hint: /--force/,
  });
  t.equal(readFileSync(path.join(place, 'web/one/theirs.txt'), 'utf8'), 'theirs');
  t.match(
    waybill(['run', '-c', 'c.yml'], { cwd: place }).stdout,
    /✗ target=one +fail_unmanaged[^]*next {4}[^]*--force/,
  );

  const forced = waybill(['run', '-c', 'c.yml', '--force', '--format', 'json'], { cwd: place });
  t.equal(forced.status, 0);
  t.match(runDocument(t, forced).counters, { force_replace: 1, skip_same: 1 });
  t.notOk(existsSync(path.join(place, 'web/one/theirs.txt')));
  t.notOk(existsSync(path.join(place, 'web/one/deep')));
  t.equal(readFileSync(path.join(place, 'web/sibling'), 'utf8'), 'stays');
  t.match(runDocument(t, waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place })).counters, {
    skip_same: 2,
  });
});

t.test('an invalid state and one of a future version are rejected, and force starts over', async (t) => {
  for (const [state, what, next] of [
    ['{"schema_version": 4', /invalid/, /next {4}restore it from a backup/],
    ['{"schema_version": 7}', /newer/, /next {4}use a newer waybill/],
  ] as const) {
    const place = t.testdir({
      source: { one: source.one },
      web: { one: { '.publisher.json': state } },
      'c.yml': configuration([web]),
    });
    const refused = waybill(['run', '-c', 'c.yml'], { cwd: place });
    t.equal(refused.status, 1);
    t.match(refused.stdout, /fail_conflict/);
    t.match(refused.stdout, what);
    t.match(waybill(['verify', '-c', 'c.yml'], { cwd: place }), { status: 1, stdout: next });
    t.equal(readFileSync(path.join(place, 'web/one/.publisher.json'), 'utf8'), state);
    t.equal(waybill(['run', '-c', 'c.yml', '--force'], { cwd: place }).status, 0);
    t.equal(waybill(['verify', '-c', 'c.yml'], { cwd: place }).status, 0);
  }
});

t.test('one destination fails, the others are still published', async (t) => {
  const place = t.testdir({
    source: { one: source.one },
    broken: 'a file, not a directory',
    'c.yml': configuration([`id: broken, backend: local, path: ./broken`, web]),
  });
  const ended = waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(ended.status, 1);
  const { counters, pipelines } = runDocument(t, ended);
  t.match(counters, { publish_new: 1, failed_destinations: 1 });
  t.same(
    pipelines[0]?.destinations.map(({ status }) => status),
    ['failed', 'ok'],
  );
});

t.test(
  'a run or a prune that would remove more than max_removed is rejected unless it is allowed',
  async (t) => {
    const names = Array.from({ length: 10 }, (_, index) => `${index}.txt`);
    const files = Object.fromEntries(names.map((name) => [name, name]));
    const settings = 'retention: {prune: {enabled: true, keep_latest: 1}}, limits: {max_removed: 20%}';
    const place = t.testdir({
      source: { one: { 'manifest.json': manifest(names), ...files } },
      'c.yml': configuration([`${web}, workflow: replacement, ${settings}`]),
    });
    const run = (...args: string[]) => waybill(['run', '-c', 'c.yml', ...args], { cwd: place });
    t.equal(run().status, 0);
    writeFileSync(path.join(place, 'source/one/manifest.json'), manifest(names.slice(0, 7)));
    const before = fingerprint(path.join(place, 'web'));
    for (const dry of [['--dry-run'], []]) {
      const refused = run('--format', 'json', ...dry);
      t.equal(refused.status, 1);
      const printed = runDocument(t, refused);
      t.match(printed.counters, { replace_catalog: 0, failed_destinations: 1 });
      t.match(printed.pipelines[0]?.destinations[0]?.actions, [
        { action: 'error', error: { code: 'too_many_removals', hint: /--allow-removals/ } },
      ]);
    }
    t.match(
      run('--dry-run').stdout,
      /"one": 3 of 10 published outputs would be removed.*allows 20%, which is 2/,
    );
    t.match(run('--dry-run', '--allow-removals'), { status: 0, stdout: /3 removed/ });
    t.same(fingerprint(path.join(place, 'web')), before, 'nothing was changed');
    t.match(run('--allow-removals'), { status: 0, stdout: /3 removed/ });

    const prune = (...args: string[]) =>
      waybill(['prune', '-c', 'c.yml', '-p', 'maps', '-d', 'web', ...args], { cwd: place });
    const pruned = fingerprint(path.join(place, 'web'));
    for (const how of ['--dry-run', '--apply']) {
      t.match(prune(how), {
        status: 1,
        stdout: /refused {2}the destination: 6 of 7 .*allows 20%, which is 1[^]*next +.*--allow-removals/,
      });
      const printed = document(t, prune(how, '--format', 'json'));
      t.match(printed, { refused: { code: 'too_many_removals' }, removed: { length: 0 } });
    }
    t.same(fingerprint(path.join(place, 'web')), pruned);
    t.match(prune('--apply', '--allow-removals'), { status: 0, stdout: /6 outputs of 6 removed/ });
  },
);

t.test('an unreadable source fails each of its destinations', async (t) => {
  const place = t.testdir({ source: 'a file, not a directory', 'c.yml': configuration([web, root]) });
  for (const dry of [[], ['--dry-run']]) {
    const ended = waybill(['run', '-c', 'c.yml', '--format', 'json', ...dry], { cwd: place });
    t.equal(ended.status, 1);
    const { counters, pipelines } = runDocument(t, ended);
    t.match(counters, { publish_new: 0, failed_destinations: 2 });
    const [pipeline] = pipelines;
    t.match(
      pipeline?.destinations.map(({ destination_id, status, actions, error }) => [
        destination_id,
        status,
        actions,
        error?.code,
      ]),
      [
        ['web', 'failed', [{ action: 'error', destination_path: null }], pipeline?.error?.code],
        ['root', 'failed', [{ action: 'error', destination_path: '.' }], pipeline?.error?.code],
      ],
    );
    t.type(pipeline?.error?.code, 'string');
  }
  const one = waybill(['run', '-c', 'c.yml', '-d', 'web', '--format', 'json'], { cwd: place });
  t.match(runDocument(t, one).counters, { failed_destinations: 1 }, 'and no others');
  const { stdout } = waybill(['run', '-c', 'c.yml'], { cwd: place });
  t.equal(stdout.match(/not a directory|is no directory/g)?.length, 1, 'the reason is reported once');
  t.equal(stdout.match(/nothing was published/g)?.length, 2);
  t.match(stdout, /failed {2}published 0, unchanged 0, failed 2 .*failed_destinations=2/);
});

t.test('an invalid bundle is named with its path, and the others are published', async (t) => {
  const place = t.testdir({
    source: { ...source, bad: { 'manifest.json': '{\n  "created": "yesterday",\n  "files": ["../x"]\n}' } },
    'c.yml': configuration([web, root]),
  });
  const ended = waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(ended.status, 1);
  const { counters, pipelines } = runDocument(t, ended);
  t.match(
    counters,
    { publish_new: 2, failed_destinations: 1 },
    'the newest bundle is ambiguous, so the root is unchanged',
  );
  t.match(pipelines[0]?.invalid_bundles, [
    { bundle: 'bad', error: { findings: [{ file: 'bad/manifest.json', line: 2 }, { line: 3 }] } },
  ]);
  t.notOk(existsSync(path.join(place, 'root/.publisher.json')));
});

t.test('a missing source fails its pipeline; an empty one is a warning', async (t) => {
  const place = t.testdir({ 'c.yml': configuration([web]) });
  const missing = waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(missing.status, 1);
  t.equal(runDocument(t, missing).pipelines[0]?.error?.code, 'storage_not_found');
  mkdirSync(path.join(place, 'source'));
  const empty = waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(empty.status, 0);
  t.match(runDocument(t, empty).pipelines[0]?.warnings, [{ code: 'no_bundles' }]);
});

t.test(
  'upload pipelines are skipped with a notice; one pipeline and one destination can be selected',
  async (t) => {
    const uploads =
      '  - {id: up, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./up}]}\n';
    const place = t.testdir({ source: { one: source.one }, 'c.yml': configuration([web, root]) + uploads });
    const all = runDocument(
      t,
      waybill(['run', '-c', 'c.yml', '-d', 'web', '--format', 'json'], { cwd: place }),
    );
    t.match(all.pipelines, [
      { status: 'ok', destinations: [{ destination_id: 'web' }] },
      { status: 'skipped', warnings: [{ code: 'upload_pipeline_skipped' }] },
    ]);
    t.notOk(existsSync(path.join(place, 'root')));
    const wrong = waybill(['run', '-c', 'c.yml', '-p', 'nope'], { cwd: place });
    t.match(wrong, { status: 2, stdout: '', stderr: /no pipeline named "nope"[^]*known: maps, up/ });
    t.match(waybill(['run', '-c', 'c.yml', '-d', 'nope'], { cwd: place }), {
      status: 2,
      stdout: '',
      stderr: /no destination named "nope"/,
    });
  },
);

t.test('replacement removes files that the bundle no longer has', async (t) => {
  const place = t.testdir({
    source: { one: source.one },
    'c.yml': configuration([`${web}, workflow: replacement`]),
  });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  writeFileSync(path.join(place, 'source/one/manifest.json'), manifest(['a.txt']));
  const ended = waybill(['run', '-c', 'c.yml'], { cwd: place });
  t.match(ended.stdout, /replace_catalog {2}1 kept, 1 removed/);
  t.notOk(existsSync(path.join(place, 'web/one/sub')));
});

t.test('an invalid configuration is reported with all its findings, as text and as JSON', async (t) => {
  const place = t.testdir({
    'c.yml':
      'pipelines:\n  - id: Maps!\n    sauce: {}\n    destinations:\n      - {id: web, backend: local, workflow: sideways}\n',
  });
  const ended = waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(ended.status, 2);
  const { error } = errorDocument(t, ended) as { error: { code: string; findings: { pointer: string }[] } };
  t.equal(error.code, 'config_invalid');
  const text = waybill(['run', '-c', 'c.yml'], { cwd: place });
  for (const part of [/c\.yml:2:\d+/, /sauce/, /workflow/, /path/]) t.match(text.stderr, part);
  for (const part of [/sauce/, /workflow/, /path/])
    t.ok(
      error.findings.some(({ pointer }) => part.test(pointer)),
      String(part),
    );
  t.match(waybill(['run', '-c', 'none.yml'], { cwd: place }), { status: 2, stdout: '', stderr: /none\.yml/ });
});

// "Fatal setup failures (unreadable config, invalid secrets) produce no JSON result document."
t.test('a fatal setup failure leaves stdout empty in every command with `--format json`', async (t) => {
  const place = t.testdir({
    'bad.yml': 'pipelines: 7\n',
    'secrets.yml': `secrets: {directory: ./gone}\n${configuration([web])}`,
  });
  const here = ['-p', 'maps', '-d', 'web'];
  const commands = [
    ['run'],
    ['run', '--dry-run'],
    ['verify'],
    ['inspect', '-p', 'maps'],
    ['validate', '-p', 'maps'],
    ['reconcile-state', ...here],
    ['prune', ...here, '--dry-run'],
    ['unpublish', ...here, 'one'],
    ['releases', 'list', ...here],
    ['notify', 'test'],
  ];
  for (const [file, code] of [
    ['none.yml', 'config_unreadable'],
    ['bad.yml', 'config_invalid'],
    ['secrets.yml', 'secrets_invalid'],
  ] as const)
    for (const command of commands) {
      const ended = waybill([...command, '-c', file, '--format', 'json'], { cwd: place });
      t.equal(ended.status, 2, `${command.join(' ')} ${file}`);
      t.match(errorDocument(t, ended), { kind: 'error', error: { code } }, `${command.join(' ')} ${file}`);
    }
  const usage = waybill(['run', '--format', 'json'], { cwd: place });
  t.match(errorDocument(t, usage), { error: { code: 'usage', message: /--config/ } });
  t.equal(usage.stderr.split('\n').length, 2, 'the document is the only line');
  const checked = waybill(['config', 'check', '-c', 'bad.yml', '--format', 'json'], { cwd: place });
  t.match(document(t, checked), { kind: 'config-check', valid: false }, 'findings belong to a check');
});

t.test('secret errors are fatal before any storage access, and a warning prints no values', async (t) => {
  const token = 'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [up]}]\n';
  const uploads =
    '  - {id: up, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./up}]}\n';
  const place = t.testdir({
    source: { one: source.one },
    secrets: { TOKEN_CI: 'from-the-file' },
    'bad-secrets': { 'not a name': 'x' },
    'c.yml': `secrets: {directory: ./secrets}\n${token}${configuration([web])}${uploads}`,
    'bad.yml': `secrets: {directory: ./bad-secrets}\n${configuration([web])}`,
    'gone.yml': `secrets: {directory: ./gone}\n${configuration([web])}`,
  });
  for (const file of ['bad.yml', 'gone.yml']) {
    const ended = waybill(['run', '-c', file, '--format', 'json'], { cwd: place });
    t.equal(ended.status, 2, file);
    t.match(errorDocument(t, ended), { kind: 'error', error: { code: 'secrets_invalid' } }, file);
    t.notOk(existsSync(path.join(place, 'web')), `${file}: nothing was published`);
  }
  const ended = waybill(['run', '-c', 'c.yml'], { cwd: place, env: { TOKEN_CI: 'from-the-environment' } });
  t.equal(ended.status, 0);
  t.match(ended.stderr, /warning.*TOKEN_CI/);
  t.notMatch(ended.stdout + ended.stderr, /from-the-/);
  const asJson = waybill(['run', '-c', 'c.yml', '--format', 'json'], {
    cwd: place,
    env: { TOKEN_CI: 'from-the-environment' },
  });
  t.equal(asJson.stderr, '');
  t.match(runDocument(t, asJson).warnings, [{ message: /TOKEN_CI/ }]);
  t.notMatch(asJson.stdout, /from-the-/);
});

t.test('a reader that closes the pipe is not a failure', async (t) => {
  const bundles = Object.fromEntries(
    Array.from({ length: 300 }, (_, index) => [
      `bundle-${index}`,
      { ...source.one, sub: { ...source.one.sub } },
    ]),
  );
  const place = t.testdir({ source: bundles, 'c.yml': configuration([web]) });
  const { status, stderr } = spawnSync(
    'bash',
    [
      '-o',
      'pipefail',
      '-c',
      `"${process.execPath}" "${program}" run -c c.yml --dry-run --verbose 2>/dev/null | head -n 1`,
    ],
    {
      cwd: place,
      encoding: 'utf8',
    },
  );
  t.equal(status, 0, stderr);
});

t.test('a failure is reported even if the reader closes the pipe', async (t) => {
  const place = t.testdir({
    source: { one: source.one },
    web: 'a file, not a directory',
    'c.yml': configuration([web]),
  });
  const { status } = spawnSync(
    'bash',
    ['-o', 'pipefail', '-c', `"${process.execPath}" "${program}" run -c c.yml 2>/dev/null | true`],
    { cwd: place },
  );
  t.equal(status, 1);
});

t.test('an untrusted name cannot control the terminal or forge a line', async (t) => {
  const name = 'b\u001b[2J\u009b31m\npublished 9  publish_new=9';
  const place = t.testdir({ source: { one: source.one }, 'c.yml': configuration([web]) });
  mkdirSync(path.join(place, 'source', name));
  writeFileSync(path.join(place, 'source', name, 'manifest.json'), manifest(['a.txt']));
  for (const command of ['run', 'validate', 'inspect']) {
    const { stdout, stderr } = waybill([command, '-c', 'c.yml', '-p', 'maps'], { cwd: place });
    t.match(stdout, /b\\u001b\[2J\\u009b31m\\npublished/, `${command} escapes it`);
    t.notMatch(stdout + stderr, new RegExp('[\\u001b\\u009b]'), command);
    t.notMatch(stdout, /^published 9 {2}publish_new=9/m, command);
  }
});

t.test('a pipeline named twice runs once, and a mistyped name gets a suggestion', async (t) => {
  const place = t.testdir({ source: { one: source.one }, 'c.yml': configuration([web]) });
  const { stdout } = waybill(['run', '-c', 'c.yml', '-p', 'maps', '-p', 'maps'], { cwd: place });
  t.match(stdout, /\npublished 1, unchanged 0, failed 0 in [\d.]+ s \(2 B\) {2}publish_new=1\n$/);
  for (const wrong of [
    ['-p', 'mpas'],
    ['-d', 'wbe'],
  ])
    t.match(waybill(['run', '-c', 'c.yml', ...wrong], { cwd: place }), {
      status: 2,
      stdout: '',
      stderr: /next {3}did you mean "(maps|web)"\?\n/,
    });
});

t.test('a long list of changes is limited to 20 for each destination, unless --verbose is set', async (t) => {
  const names = Array.from({ length: 15 }, (_, index) => `f${index}`);
  const bundle = {
    'manifest.json': manifest(names),
    ...Object.fromEntries(names.map((name) => [name, name])),
  };
  const place = t.testdir({
    source: { one: { ...bundle }, two: { ...bundle } },
    'c.yml': configuration([web, 'id: other, backend: local, path: ./other']),
  });
  const dryRun = ['run', '-c', 'c.yml', '--dry-run'];
  const cut = waybill(dryRun, { cwd: place }).stdout;
  t.equal(cut.match(/^ {6}\+ /gm)?.length, 40);
  t.equal(cut.match(/… and 10 more changes \(--verbose shows all\)/g)?.length, 2);
  const whole = waybill([...dryRun, '--verbose'], { cwd: place }).stdout;
  t.equal(whole.match(/^ {6}\+ /gm)?.length, 60);
  t.notMatch(whole, /more change/);
});

t.test('two checkouts with one source id count as one source', async (t) => {
  const place = t.testdir({ first: source, second: structuredClone(source) });
  const run = (checkout: string, id: string): RunDocument => {
    const config = configuration([web]).replace('path: ./source', `path: ./${checkout}${id}`);
    writeFileSync(path.join(place, 'c.yml'), config);
    return runDocument(t, waybill(['run', '-c', 'c.yml', '--format', 'json'], { cwd: place }));
  };
  t.match(run('first', ', id: maps').counters, { publish_new: 2 });
  const before = fingerprint(path.join(place, 'web'));
  t.match(run('second', ', id: maps').counters, { skip_same: 2 });
  t.same(fingerprint(path.join(place, 'web')), before);
  t.match(
    run('second', '').counters,
    { upsert_additive: 2, skip_same: 0 },
    'at another path it is another source',
  );
});

t.test('bundles missing from the source are inspected, reported, predicted and removed', async (t) => {
  const place = t.testdir({ source, 'c.yml': configuration([`${web}, orphans: report`]), plan: {} });
  const at = (name: string): string => path.join(place, name);
  const run = (...args: string[]) => waybill(['run', '-c', 'c.yml', ...args], { cwd: place });
  t.equal(run().status, 0);
  rmSync(at('source/one'), { recursive: true });
  const orphan = { destination_path: 'one', outputs: ['a.txt', 'sub/b.txt'], bytes: 2, error: null };
  const before = fingerprint(at('web'));
  t.match(waybill(['inspect', '-c', 'c.yml', '-p', 'maps'], { cwd: place }), {
    status: 0,
    stdout: /target=one +orphan +2 outputs, 2 B; the source does not hold it any more/,
  });
  const seen = waybill(['inspect', '-c', 'c.yml', '-p', 'maps', '--format', 'json'], { cwd: place });
  t.match(document(t, seen), {
    destinations: [{ orphans: [{ destination_path: 'one', outputs: 2, bytes: 2 }] }],
  });
  t.match(run(), {
    status: 0,
    stdout: /! target=one +orphan .*it stays published[^]*skip_same=1 orphans=1/,
  });
  t.match(runDocument(t, run('--format', 'json')), {
    pipelines: [{ destinations: [{ orphans: [{ ...orphan, action: 'keep' }] }] }],
  });

  writeFileSync(at('c.yml'), configuration([`${web}, orphans: remove`]));
  const planned = run('--dry-run', '--out', 'plan/p.json');
  t.match(planned, { status: 0, stdout: /target=one +unpublish .*it would be removed/ });
  t.match(planned.stderr, /^note {2}the plan was written to .*\n$/, 'without a warning');
  const predicted = run('--dry-run');
  t.match(predicted.stdout, /- target=one +unpublish +2 files, 2 B +.*it would be removed\n +- a\.txt/);
  t.match(
    predicted.stdout,
    /would publish 0, unchanged 1, would remove 1, failed 0; dry run, nothing was written {2}skip_same=1 unpublish=1/,
  );
  t.same(fingerprint(at('web')), before, 'nothing was changed so far');
  const done = run('--format', 'json');
  t.equal(done.status, 0, done.stderr);
  t.match(runDocument(t, done), {
    pipelines: [{ destinations: [{ orphans: [{ ...orphan, action: 'unpublish' }] }] }],
  });
  t.same(readdirSync(at('web')), ['two']);
  rmSync(at('source/two'), { recursive: true });
  t.match(run(), { status: 1, stdout: /the source has no bundles.*too_many_removals/ });
  t.match(run('--allow-removals'), { status: 0, stdout: /it was removed[^]*unpublish=1/ });
  t.same(readdirSync(at('web')), []);
});
