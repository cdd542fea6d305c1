import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t, { type Test } from 'tap';
import {
  configuration,
  document,
  type Ended,
  fingerprint,
  manifest,
  program,
  root,
  waybill,
  web,
} from '../../process.ts';

const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
addFormats.default(ajv);
const validate = ajv.compile(JSON.parse(readFileSync('schemas/plan.schema.json', 'utf8')) as object);

function layOut(t: Test): { place: string; run: (...args: string[]) => Ended; touched: () => unknown[] } {
  const place = t.testdir({
    source: {
      one: { 'manifest.json': manifest(['a.txt', 'b.txt']), 'a.txt': 'a', 'b.txt': 'b' },
      two: { 'manifest.json': manifest(['c.txt'], '2026-11-21T00:00:00Z'), 'c.txt': 'c' },
    },
    web: {},
    root: {},
    'c.yml': configuration([`${web}, workflow: replacement`, root]),
  });
  return {
    place,
    run: (...args) => waybill(['run', '-c', 'c.yml', ...args], { cwd: place }),
    touched: () => [fingerprint(path.join(place, 'web')), fingerprint(path.join(place, 'root'))],
  };
}

t.test('the commands to carry out a plan and to undo a rollback can be pasted into a shell', async (t) => {
  const place = t.testdir({
    source: { "it's one": { 'manifest.json': manifest(['a.txt']), 'a.txt': 'old' } },
    web: {},
    "my config's.yml": configuration([`${web}, layout: releases`]),
  });
  const paste = (text: string): Ended => {
    const command = /: (waybill .*)$/m.exec(text)?.[1] ?? 'false';
    const named = `waybill() { "${process.execPath}" "${program}" "$@"; }; ${command}`;
    const { status, stdout, stderr } = spawnSync('sh', ['-c', named], { cwd: place, encoding: 'utf8' });
    return { status, stdout, stderr };
  };
  const run = (...args: string[]): Ended =>
    waybill(['run', '-c', "my config's.yml", ...args], { cwd: place });
  t.match(paste(run('--dry-run', '--out', 'a plan.json').stderr), { status: 0, stdout: /publish_new=1/ });
  writeFileSync(path.join(place, "source/it's one/a.txt"), 'new');
  t.match(run(), { status: 0 });
  const rollback = ['releases', 'rollback', '-c', "my config's.yml", '--path', "it's one"];
  t.match(paste(waybill(rollback, { cwd: place }).stdout), { status: 0, stdout: /^promoted/ });
  t.match(waybill(rollback, { cwd: place }), { status: 0 });
  t.match(paste(run().stderr), { status: 0, stdout: /^promoted/ }, 'of a run that is held back');
});

t.test('a plan does not replace the configuration', async (t) => {
  const text = configuration([web]);
  const place = t.testdir({ source: { one: { 'manifest.json': manifest([]) } }, web: {}, 'c.yml': text });
  symlinkSync('c.yml', path.join(place, 'link.yml'));
  for (const name of ['c.yml', './c.yml', 'link.yml'])
    t.match(waybill(['run', '-c', 'c.yml', '--dry-run', '--out', name], { cwd: place }), {
      status: 2,
      stderr: `error  "${name}" cannot be written: the command reads it\nnext   name another file for the output\n`,
    });
  t.equal(readFileSync(path.join(place, 'c.yml'), 'utf8'), text);
});

t.test('a saved plan is executed exactly, and only once', async (t) => {
  const { place, run, touched } = layOut(t);
  const before = touched();
  const planned = run('--dry-run', '--out', 'plan.json');
  t.equal(planned.status, 0, planned.stderr);
  t.match(planned.stderr, /note {2}the plan was written to plan\.json \(sha256:\w{64}\)/);
  const plan = JSON.parse(readFileSync(path.join(place, 'plan.json'), 'utf8')) as {
    targets: unknown;
    decisions: Record<string, unknown>[];
  };
  t.ok(validate(plan), ajv.errorsText(validate.errors));
  t.same(plan.targets, [{ pipeline_id: 'maps', destination_ids: ['web', 'root'] }]);
  t.match(plan.decisions, [
    { destination_id: 'root', destination_path: '.', action: 'publish_new', state: null },
    { destination_id: 'web', destination_path: 'one', changes: [{ path: 'a.txt', fate: 'add' }, {}] },
    { destination_id: 'web', destination_path: 'two', outputs: [{ path: 'c.txt', size: 1 }] },
  ]);
  const checked = run('--plan', 'plan.json', '--dry-run');
  t.match(checked, { status: 0, stdout: /dry run, nothing was written {2}publish_new=3/ });
  t.same(touched(), before, 'nothing was written so far');

  const done = run('--plan', 'plan.json', '--format', 'json');
  t.equal(done.status, 0, done.stderr);
  t.match(document(t, done), { dry_run: false, counters: { publish_new: 3 } });
  const after = touched();
  t.match(run('--plan', 'plan.json'), {
    status: 2,
    stdout: '',
    stderr:
      /the plan is out of date: maps\/root \.: the state of the destination changed, and 2 more; nothing/,
  });
  t.same(touched(), after);

  run('--dry-run', '--out', 'idle.json');
  t.match(run('--plan', 'idle.json'), { status: 0, stdout: /skip_same=3/ });
  t.same(touched(), after);
});

t.test('a plan is rejected if the source, the destination or the configuration changed', async (t) => {
  const { place, run, touched } = layOut(t);
  const at = (name: string): string => path.join(place, name);
  t.equal(run('-d', 'web').status, 0);
  const config = readFileSync(at('c.yml'), 'utf8');
  const sources = {
    'source/two/c.txt': 'c',
    'source/two/manifest.json': readFileSync(at('source/two/manifest.json'), 'utf8'),
  };
  const restore = (): void => {
    for (const [name, text] of Object.entries(sources)) writeFileSync(at(name), text);
    writeFileSync(at('c.yml'), config);
  };
  writeFileSync(at('source/one/a.txt'), 'new');
  t.equal(run('--dry-run', '--out', 'plan.json').status, 0);
  const before = touched();
  const cases: [what: string, change: () => void, message: RegExp][] = [
    ['other bytes', () => writeFileSync(at('source/two/c.txt'), 'C'), /maps\/root \.: the source changed/],
    [
      'another created',
      () => writeFileSync(at('source/two/manifest.json'), manifest(['c.txt'], '2026-11-22T00:00:00Z')),
      /the source changed/,
    ],
    [
      'another newest bundle',
      () => writeFileSync(at('source/two/manifest.json'), manifest(['c.txt'], '2026-11-01T00:00:00Z')),
      /maps\/root \.: the source changed/,
    ],
    [
      'another setting',
      () => writeFileSync(at('c.yml'), config.replace('replacement', 'additive')),
      /configuration of its pipelines changed/,
    ],
    ['no such destination', () => writeFileSync(at('c.yml'), configuration([web])), /no destination.*"root"/],
    [
      'no such pipeline',
      () => writeFileSync(at('c.yml'), config.replace('id: maps', 'id: charts')),
      /no pipeline named "maps"/,
    ],
  ];
  for (const [what, change, message] of cases) {
    change();
    for (const dry of [[], ['--dry-run']]) {
      const refused = run('--plan', 'plan.json', ...dry);
      t.match(refused, { status: 2, stdout: '', stderr: message }, what);
      t.match(refused.stderr, /the plan is out of date.*nothing was changed/s, what);
    }
    t.same(touched(), before, `${what}: nothing is changed`);
    restore();
  }
  writeFileSync(at('root/stray.txt'), 'x');
  t.match(run('--plan', 'plan.json'), {
    status: 2,
    stderr: /maps\/root \.: the files at the destination changed/,
  });
  rmSync(at('root/stray.txt'));
  t.match(run('--plan', 'plan.json'), {
    status: 0,
    stdout: /publish_new=1 replace_catalog=1 skip_same=1/,
  });
});

t.test('the plan lists the orphans to remove, and no others are removed', async (t) => {
  const { place, run, touched } = layOut(t);
  const at = (name: string): string => path.join(place, name);
  const add = (bundle: string): void => {
    mkdirSync(at(`source/${bundle}`), { recursive: true });
    writeFileSync(at(`source/${bundle}/x.txt`), 'x');
    writeFileSync(at(`source/${bundle}/manifest.json`), manifest(['x.txt']));
  };
  const drop = (bundle: string): void => rmSync(at(`source/${bundle}`), { recursive: true });
  writeFileSync(at('c.yml'), configuration([`${web}, orphans: remove`]));
  for (const bundle of ['three', 'four']) add(bundle);
  t.equal(run().status, 0);
  drop('three');
  const planned = run('--dry-run', '--out', 'plan.json');
  t.match(planned, { status: 0, stdout: /target=three +unpublish.*it would be removed/ });
  t.notMatch(planned.stderr, /orphans_not_removed/);
  const plan = JSON.parse(readFileSync(at('plan.json'), 'utf8')) as { decisions: unknown[] };
  t.ok(validate(plan), ajv.errorsText(validate.errors));
  t.match(plan.decisions, [
    { destination_path: 'four', action: 'skip_same' },
    { destination_path: 'one', action: 'skip_same' },
    {
      destination_path: 'three',
      bundle: { path: 'three', created: '2026-11-20T01:02:03.000Z' },
      state: /^sha256:/,
      action: 'unpublish',
      reason: 'orphan',
      changes: [{ path: 'x.txt', fate: 'remove', why: 'orphan' }],
      outputs: { length: 0 },
    },
    { destination_path: 'two', action: 'skip_same' },
  ]);
  const before = touched();
  const state = readFileSync(at('web/three/.publisher.json'), 'utf8');
  const cases: [change: () => void, message: RegExp, revert: () => void][] = [
    [() => drop('four'), /maps\/web four: the source changed; nothing was changed/, () => add('four')],
    [() => add('three'), /maps\/web three: the source changed; nothing/, () => drop('three')],
    [
      () => writeFileSync(at('web/three/.publisher.json'), `${state}\n`),
      /maps\/web three: the state of the destination changed; nothing/,
      () => writeFileSync(at('web/three/.publisher.json'), state),
    ],
  ];
  for (const [change, message, revert] of cases) {
    change();
    const untouched = touched();
    t.match(run('--plan', 'plan.json'), { status: 2, stdout: '', stderr: message });
    t.same(touched(), untouched, `${String(message)}: nothing is changed`);
    revert();
  }
  t.ok(existsSync(at('web/three/x.txt')));
  t.same(Object.keys(before[0] as object), Object.keys(touched()[0] as object));
  t.match(run('--plan', 'plan.json'), { status: 0, stdout: /target=three +unpublish.*it was removed/ });
  t.notOk(existsSync(at('web/three')));
  t.match(run('--plan', 'plan.json'), { status: 2, stderr: /maps\/web three: it is no longer an orphan/ });
});

t.test('an edited, truncated, missing plan, or one of another version, is invalid', async (t) => {
  const { place, run, touched } = layOut(t);
  run('--dry-run', '--out', 'plan.json');
  const text = readFileSync(path.join(place, 'plan.json'), 'utf8');
  const before = touched();
  const cases: [text: string, message: RegExp][] = [
    [text.replace('"force": false', '"force": true'), /edited/],
    [text.replace('"a.txt"', '"x.txt"'), /edited/],
    [text.replace('"schema_version": 2', '"schema_version": 3'), /has version 3 for catalogs of version 4/],
    [text.replace('"catalog_version": 4', '"catalog_version": 5'), /has version 2 for catalogs of version 5/],
    [text.slice(0, -40), /not JSON/],
    ['[]', /not a waybill plan/],
    ['{"kind": "run"}', /not a waybill plan/],
    ['', /not JSON/],
  ];
  for (const [content, message] of cases) {
    writeFileSync(path.join(place, 'other.json'), content);
    t.match(run('--plan', 'other.json'), { status: 2, stdout: '', stderr: message });
  }
  t.match(run('--plan', 'none.json'), { status: 2, stderr: /cannot be read/ });
  t.same(touched(), before);
  t.match(run('--plan', 'plan.json', '--force'), {
    status: 2,
    stderr: /--plan cannot be combined with --force/,
  });
  t.match(run('--out', 'x.json'), { status: 2, stderr: /--out needs --dry-run/ });
  t.match(run('--dry-run', '--out', 'no/such/x.json'), {
    status: 2,
    stderr: /"no\/such\/x\.json" cannot be written: its directory does not exist/,
  });
});

t.test('a plan that could not be executed in full is not saved', async (t) => {
  const { place, run } = layOut(t);
  writeFileSync(path.join(place, 'root/theirs.txt'), 'x');
  const refused = run('--dry-run', '--out', 'plan.json');
  t.match(refused, { status: 1, stdout: /fail_unmanaged/, stderr: /the plan was not written/ });
  t.notOk(existsSync(path.join(place, 'plan.json')));
  t.equal(run('--dry-run', '--force', '--out', 'plan.json').status, 0);
  t.match(run('--plan', 'plan.json'), { status: 0, stdout: /force_replace=1/ });
  t.notOk(existsSync(path.join(place, 'root/theirs.txt')), 'a plan includes its force option');
});
