import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import t from 'tap';
import * as tar from 'tar';
import { wrapLines } from '../../src/cli/output/terminal.ts';
import { makeProgram } from '../../src/cli/program.ts';
import { ensureInstalled } from '../services/debian.ts';
import { configuration, document, fingerprint, manifest, program, root, waybill, web } from './process.ts';

const bundle = { 'manifest.json': manifest(['a.txt', 'sub/b.txt']), 'a.txt': 'a', sub: { 'b.txt': 'b' } };

t.test('help and version', async (t) => {
  const help = waybill(['--help']);
  t.match(help, { status: 0, stderr: '' });
  const names = ['run', 'validate', 'inspect', 'verify', 'reconcile-state', 'prune', 'unpublish', 'serve'];
  for (const name of [...names, 'config']) t.match(help.stdout, new RegExp(`^ {2}${name}\\b`, 'm'));
  t.match(waybill(['run', '--help']).stdout, /--force/);
  t.match(waybill(['--version']).stdout, /^\d+\.\d+\.\d+\n$/);
});

t.test('help finds a command of a group, and refuses a command that does not exist', (t) => {
  for (const words of [
    ['help', 'releases', 'list'],
    ['releases', 'help', 'list'],
  ])
    t.match(waybill(words), { status: 0, stdout: /^Usage: waybill releases list / }, words.join(' '));
  for (const [words, name, list] of [
    [['help', 'nope'], 'nope', 'waybill'],
    [['nope', '--help'], 'nope', 'waybill'],
    [['help', 'pussh'], 'pussh"; did you mean push?', 'waybill'],
    [['releases', 'help', 'nope'], 'nope', 'waybill releases'],
    [['help', 'releases', 'nope'], 'nope', 'waybill releases'],
  ] as const) {
    const { status, stdout, stderr } = waybill(words);
    t.match({ status, stdout }, { status: 2, stdout: '' }, words.join(' '));
    t.ok(stderr.startsWith(`error  unknown command "${name}`), stderr);
    t.ok(stderr.endsWith(`\nnext   ${list} --help lists the commands\n`), stderr);
  }
  t.end();
});

t.test('refuses an empty argument, which could mean the current directory', (t) => {
  const cwd = t.testdir({ 'a.txt': 'a' });
  for (const [words, name] of [
    [['pack', ''], 'directory'],
    [['push', '', '--to', 'http://127.0.0.1:1'], 'bundle'],
    [['publish', '.', ''], 'destination'],
    [['runs', 'show', '', '--to', 'http://127.0.0.1:1'], 'run_id'],
    [['runs', 'follow', '', '--to', 'http://127.0.0.1:1'], 'run_id'],
    [['releases', 'rollback', '', '--to', 'http://127.0.0.1:1'], 'release'],
  ] as const) {
    const { status, stdout, stderr } = waybill(words, { cwd, env: { WAYBILL_TOKEN: 'x'.repeat(24) } });
    t.match({ status, stdout }, { status: 2, stdout: '' }, words.join(' '));
    t.match(stderr, `error  the argument <${name}> is empty\nnext   give the `);
    t.match(stderr, '; if it comes from a variable, check that the variable is set\n');
  }
  t.end();
});

t.test('explains a switch that is given a value', (t) => {
  t.match(waybill(['publish', '.', 'www', '--dry-run=false']), {
    status: 2,
    stderr: 'error  option --dry-run takes no value: write it without "="\nnext ',
  });
  t.end();
});

t.test('a limit on open files that is too low for the start is named', (t) => {
  const place = t.testdir({ 'c.yml': configuration(['{ id: web, backend: local, path: web }']) });
  const limited = ['-c', 'ulimit -n 40; exec "$@"', 'sh', process.execPath, program];
  const { status, stderr } = spawnSync('/bin/sh', [...limited, 'serve', '--config', 'c.yml'], {
    cwd: place,
    encoding: 'utf8',
  });
  t.equal(status, 2);
  t.match(stderr, /^error {2}the limit on open files of this process is too low\nnext {3}raise it to 1024/);
  t.end();
});

t.test('every help fits in 60, 80 and 120 columns, names exit codes, and breaks no word', (t) => {
  const all = (command: Command): Command[] => [command, ...command.commands.flatMap(all)];
  const helpOf = (command: Command, width: number): string => {
    let help = '';
    command.configureOutput({ writeOut: (text) => (help += wrapLines(text, width)) });
    for (const each of all(command)) each.configureOutput({ getOutHelpWidth: () => width });
    command.outputHelp();
    return help;
  };
  // The lines that break within a paragraph, each with the word after the break.
  const brokenProse = (help: string): string[][] =>
    help
      .split('\n\n')
      .filter((paragraph) => !/^ |: {2,}/m.test(paragraph))
      .map((paragraph) => paragraph.trimEnd().split('\n'))
      .flatMap((lines) =>
        lines.slice(1).map((line, index) => [lines[index] ?? '', line.split(' ')[0] ?? '']),
      );
  for (const command of all(makeProgram())) {
    const words = new Set<string>();
    for (const width of [60, 80, 120]) {
      const help = helpOf(command, width);
      for (const line of help.split('\n'))
        // A command line or a list of choices counts as one word.
        t.ok(line.length <= width || !line.trimEnd().slice(2).includes(' '), `${command.name()}: ${line}`);
      for (const [first, next] of brokenProse(help))
        t.ok(`${first} ${next}`.length > width, `${command.name()} breaks "${first}" early`);
      if (command.name() !== 'words') t.match(help, /exit codes?/i, command.name());
      words.add(help.split(/\s+/).toSorted().join(' '));
    }
    t.equal(words.size, 1, `the help of ${command.name()} has the same words at each width`);
  }
  const { stdout } = waybill(['--help']);
  for (const line of stdout.split('\n')) t.ok(line.length <= 80, line);
  t.match(stdout, /^Publish:\n {2}publish [^]*^Remote:\n {2}push [^]*^Daemon:\n {2}serve [^]*^Scene maps:/m);
  t.end();
});

t.test('a missing argument is named with its choices, and a mistyped command with its help', (t) => {
  const { status, stderr } = waybill(['completion']);
  t.equal(status, 2);
  t.equal(
    stderr,
    'error  missing argument <shell>: one of bash, zsh, fish\n' +
      'next   waybill completion <shell>; waybill completion --help has examples and all options\n',
  );
  const json = waybill(['runs', 'show', '--to', 'http://127.0.0.1/', '--format', 'json']).stderr;
  t.match(json, 'missing argument <run_id>: id of the run');
  t.match(json, 'waybill runs show <run_id> --to <url>');
  t.match(
    waybill(['releases', 'show', 'x']).stderr,
    /^error {2}missing option --config <file> or --to <url>\nnext {3}name the configuration file, or the URL/m,
  );
  t.end();
});

t.test('wrong usage: exit 2, nothing on stdout, and the correct usage', async (t) => {
  t.match(waybill(['rum']), { status: 2, stdout: '', stderr: /unknown command "rum"; did you mean run\?/ });
  t.match(waybill(['constructor']), { status: 2, stderr: /unknown command "constructor"\nnext/ });
  t.match(waybill(['run']), { status: 2, stdout: '', stderr: /--config/ });
  t.match(waybill(['run', '-c', 'x', '--dry-rum']), {
    status: 2,
    stdout: '',
    stderr: /did you mean --dry-run\?/,
  });
  t.match(waybill(['run', '-c', 'x', '--format', 'xml']), {
    status: 2,
    stdout: '',
    stderr: /--format: "xml" is not one of text, json\n/,
  });
  t.match(waybill(['validate']), { status: 2, stdout: '', stderr: /waybill validate BUNDLE/ });
  t.match(waybill(['validate', 'x', '-c', 'y']), { status: 2, stdout: '' });
  t.match(waybill(['scene-map', 'validate', 'x', '--schema-onl']), {
    status: 2,
    stdout: '',
    stderr: /^error {2}unknown option --schema-onl; did you mean --schema-only\?\nnext /,
  });
  t.match(waybill(['config']), { status: 2, stdout: '', stderr: /check \[options\]/ });
  t.match(waybill(['prune', '-c', 'x', '-p', 'p', '-d', 'd']), {
    status: 2,
    stdout: '',
    stderr: /--dry-run or --apply/,
  });
  t.match(waybill(['prune', '-c', 'x', '-p', 'p', '-d', 'd', '--dry-run', '--apply']), {
    status: 2,
    stdout: '',
  });
});

t.test('validate reads every byte, of a directory and of a source', async (t) => {
  const wrong = { path: 'a.txt', digest: `sha256:${'0'.repeat(64)}` };
  const place = t.testdir({
    source: {
      good: bundle,
      bad: { 'manifest.json': manifest([wrong, 'gone.txt']), 'a.txt': 'a' },
      altered: { 'manifest.json': manifest([wrong]), 'a.txt': 'a' },
    },
    'c.yml': configuration([web]),
  });
  t.match(waybill(['validate', 'source/good'], { cwd: place }), {
    status: 0,
    stdout: /valid {4}source\/good {2}2 files, 2 B/,
  });
  t.match(waybill(['validate', 'source'], { cwd: place }), {
    status: 1,
    stderr: /no manifest\.json[^]*altered, bad, good/,
  });
  t.match(waybill(['validate', 'nowhere'], { cwd: place }), { status: 1, stdout: '', stderr: /nowhere/ });
  const ended = waybill(['validate', '-c', 'c.yml', '-p', 'maps', '--format', 'json'], { cwd: place });
  t.equal(ended.status, 1);
  const printed = document(t, ended) as {
    valid: boolean;
    bundles: { bundle: string; valid: boolean; findings: { code: string; file: string }[] }[];
  };
  t.equal(printed.valid, false);
  t.match(printed.bundles, [
    { bundle: 'altered', valid: false, findings: [{ code: 'digest_mismatch', file: 'a.txt' }] },
    { bundle: 'bad', valid: false, findings: [{ code: 'file_missing', file: 'gone.txt' }] },
    { bundle: 'good', valid: true, findings: { length: 0 } },
  ]);
  t.match(
    waybill(['validate', '-c', 'c.yml', '-p', 'maps'], { cwd: place }).stdout,
    /failed {2}2 of 3 bundles invalid/,
  );
});

t.test('validate finds a file with the name of a generated output', (t) => {
  const place = t.testdir({
    source: { site: { 'manifest.json': manifest(['index.html']), 'index.html': 'home' } },
    'c.yml': configuration([`${web}, outputs: {index: true}`]),
  });
  const refused = waybill(['validate', '-c', 'c.yml', '-p', 'maps'], { cwd: place });
  t.match(refused, { status: 1, stdout: /index\.html: destination "web" generates "index\.html"/ });
  writeFileSync(path.join(place, 'c.yml'), configuration([`${web}, outputs: {index: auto}`]));
  t.match(waybill(['validate', '-c', 'c.yml', '-p', 'maps'], { cwd: place }), { status: 0 });
  t.match(waybill(['run', '-c', 'c.yml'], { cwd: place }), { status: 0 });
  t.equal(readFileSync(path.join(place, 'web/site/index.html'), 'utf8'), 'home');
  t.end();
});

t.test('a bundle with an invalid scene map is rejected with the pointer and the line', async (t) => {
  const map = readFileSync('examples/scene-maps/session-42-invalid.json', 'utf8');
  const place = t.testdir({
    source: {
      bad: { 'manifest.json': manifest([{ path: 'scenes.json', kind: 'scene_map' }]), 'scenes.json': map },
    },
    'c.yml': configuration([web]),
  });
  const place42 = /scenes\.json:\d+:\d+ \/scenes\/\d+/;
  t.match(waybill(['validate', 'source/bad'], { cwd: place }), { status: 1, stdout: place42 });
  t.match(waybill(['run', '-c', 'c.yml'], { cwd: place }), { status: 1, stdout: place42 });
  t.notOk(existsSync(path.join(place, 'web')), 'none of it is published');
  t.match(waybill(['scene-map', 'validate', 'source/bad/scenes.json'], { cwd: place }), { status: 1 });
  t.match(waybill(['scene-map', 'validate'], { cwd: place }), { status: 2, stdout: '' });
});

t.test('inspect shows the source and the state of the destinations, and writes nothing', async (t) => {
  const place = t.testdir({ source: { one: bundle }, 'c.yml': configuration([web, root]) });
  const before = fingerprint(place);
  const fresh = waybill(['inspect', '-c', 'c.yml', '-p', 'maps', '--format', 'json'], { cwd: place });
  t.equal(fresh.status, 0);
  t.same(fingerprint(place), before);
  t.match(document(t, fresh), {
    bundles: [{ path: 'one', files: 2, bytes: 2, valid: true }],
    destinations: [{ targets: [{ state: 'absent' }] }, { targets: [{ destination_path: '.' }] }],
  });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  t.match(
    waybill(['inspect', '-c', 'c.yml', '-p', 'maps'], { cwd: place }).stdout,
    /target=one {2}from one {2}generation 1, 2 outputs/,
  );
});

t.test('inspect --probe shows storage capabilities and leaves published files unchanged', async (t) => {
  const place = t.testdir({ source: { one: bundle }, 'c.yml': configuration([web, root]) });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  const before = readdirSync(place, { recursive: true });
  const probed = waybill(['inspect', '-c', 'c.yml', '-p', 'maps', '--probe', '--format', 'json'], {
    cwd: place,
  });
  t.equal(probed.status, 0, probed.stderr);
  t.match(document(t, probed), {
    probes: [
      {
        destination_id: null,
        probe: { rights: { list: { answer: 'yes' }, create: { answer: 'not_tried' } } },
      },
      {
        destination_id: 'web',
        probe: { rename: 'atomic', rights: { remove: { answer: 'yes' } } },
        error: null,
      },
      { probe: { clock_offset_ms: 0 } },
    ],
  });
  t.match(
    waybill(['inspect', '-c', 'c.yml', '-p', 'maps', '--probe'], { cwd: place }).stdout,
    /\(source\) .*list\n.*web .*agrees .*atomic .*create .*list read create replace rename remove/,
  );
  t.same(readdirSync(place, { recursive: true }), before);
});

t.test('inspect --probe does not create a missing destination', async (t) => {
  const place = t.testdir({ source: { one: bundle }, 'c.yml': configuration([web]) });
  const before = fingerprint(place);
  const probe = ['inspect', '-c', 'c.yml', '-p', 'maps', '--probe'];
  const probed = waybill([...probe, '--format', 'json'], { cwd: place });
  t.equal(probed.status, 0, probed.stderr);
  const rights = { list: { answer: 'yes' }, create: { answer: 'not_tried' } };
  t.match(document(t, probed), { probes: [{ exists: true }, { exists: false, probe: { rights } }] });
  t.match(
    waybill(probe, { cwd: place }).stdout,
    /web {2}the directory does not exist; the first publication creates it/,
  );
  t.same(fingerprint(place), before);
});

t.test('verify finds altered, truncated and removed files', async (t) => {
  const place = t.testdir({
    source: { one: { ...bundle, 'manifest.json': manifest(['a.txt', 'sub/b.txt', 'c.txt']), 'c.txt': 'c' } },
    'c.yml': configuration([web]),
  });
  t.match(waybill(['verify', '-c', 'c.yml'], { cwd: place }), { status: 1, stdout: /nothing was published/ });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  t.match(waybill(['verify', '-c', 'c.yml', '-p', 'maps', '-d', 'web'], { cwd: place }), {
    status: 0,
    stdout: /clean/,
  });
  writeFileSync(path.join(place, 'web/one/a.txt'), 'A');
  writeFileSync(path.join(place, 'web/one/c.txt'), 'longer');
  rmSync(path.join(place, 'web/one/sub/b.txt'));
  const ended = waybill(['verify', '-c', 'c.yml', '--format', 'json'], { cwd: place });
  t.equal(ended.status, 1);
  const printed = document(t, ended) as {
    destinations: { paths: { differing: { path: string; problem: string }[] }[] }[];
  };
  t.match(printed.destinations[0]?.paths[0]?.differing, [
    { path: 'a.txt', problem: 'digest' },
    { path: 'c.txt', problem: 'size' },
    { path: 'sub/b.txt', problem: 'missing' },
  ]);
});

t.test('verify accepts the same names of destinations and pipelines as run', async (t) => {
  const place = t.testdir({
    source: { one: bundle },
    'c.yml':
      configuration([web, root]) +
      '  - {id: more, source: {backend: local, path: ./source}, destinations: [{id: web, backend: local, path: ./more}]}\n',
  });
  t.equal(waybill(['run', '-c', 'c.yml'], { cwd: place }).status, 0);
  const verified = (...args: string[]): string[] => {
    const printed = document(
      t,
      waybill(['verify', '-c', 'c.yml', '--format', 'json', ...args], { cwd: place }),
    );
    return (printed as { destinations: { pipeline_id: string; destination_id: string }[] }).destinations.map(
      ({ pipeline_id, destination_id }) => `${pipeline_id}/${destination_id}`,
    );
  };
  t.same(verified(), ['maps/web', 'maps/root', 'more/web']);
  t.same(verified('-d', 'web'), ['maps/web', 'more/web']);
  t.same(verified('-d', 'web', '-d', 'root'), ['maps/web', 'maps/root', 'more/web']);
  t.same(verified('-p', 'more', '-p', 'maps', '-d', 'web'), ['more/web', 'maps/web']);
  t.same(verified('-d', 'root'), ['maps/root']);
  t.match(waybill(['verify', '-c', 'c.yml', '-d', 'wab'], { cwd: place }), {
    status: 2,
    stderr: /no destination named "wab"[^]*did you mean "web"/,
  });
  t.match(waybill(['verify', '-c', 'c.yml', '-p', 'more', '-d', 'root'], { cwd: place }), { status: 2 });
});

t.test("fixes altered files with verify's suggestion, where a normal run trusts its records", async (t) => {
  const place = t.testdir({ source: { one: bundle }, 'c.yml': configuration([web]) });
  const command = (name: string, ...more: string[]): ReturnType<typeof waybill> =>
    waybill([name, '-c', 'c.yml', '-p', 'maps', '-d', 'web', ...more], { cwd: place });
  const altered = path.join(place, 'web/one/a.txt');
  command('run');
  writeFileSync(altered, 'A');
  t.match(command('verify'), {
    status: 1,
    stdout:
      /failed {2}1 file not as published .*\nnext {4}remove the different files, then publish them again with waybill reconcile-state and waybill run/,
  });
  t.match(command('run').stdout, /skip_same/);
  rmSync(altered);
  t.match(command('reconcile-state').stdout, /1 record removed/);
  t.match(command('run').stdout, /upsert_additive/);
  t.equal(readFileSync(altered, 'utf8'), 'a');
  t.equal(command('verify').status, 0);
});

t.test('verify --repair rewrites files that differ, and --subset reads a part', async (t) => {
  const place = t.testdir({ source: { one: bundle }, 'c.yml': configuration([web]) });
  const verify = (...more: string[]): ReturnType<typeof waybill> =>
    waybill(['verify', '-c', 'c.yml', ...more], { cwd: place });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  const altered = path.join(place, 'web/one/a.txt');
  writeFileSync(altered, 'A');
  const dry = verify('--repair', '--dry-run');
  t.match(dry, { status: 1, stdout: /would be written again {2}a\.txt {2}from source/ });
  t.equal(readFileSync(altered, 'utf8'), 'A');
  const printed = verify('--repair', '--format', 'json');
  t.equal(printed.status, 0, printed.stderr);
  t.match(document(t, printed), {
    clean: true,
    destinations: [
      { paths: [{ repair: { repaired: [{ path: 'a.txt', from: 'source' }], unrepaired: { length: 0 } } }] },
    ],
  });
  t.equal(readFileSync(altered, 'utf8'), 'a');
  t.match(verify('--repair'), { status: 0, stdout: /clean/ });
  t.match(verify('--subset', '1/1').stdout, /clean {2}every recorded output is as/);
  const parts = ['1/2', '2/2'].map((part) => verify('--subset', part).stdout);
  t.ok(parts.some((text) => text.includes('not in the subset')));
  t.match(verify('--subset', '3/2'), { status: 2, stderr: /is not k\/n/ });
  t.match(verify('--dry-run'), { status: 2, stderr: /needs --repair/ });
});

t.test('inspect reports that the newest bundle is ambiguous', async (t) => {
  const place = t.testdir({
    source: { one: bundle, bad: { 'manifest.json': '{}' } },
    'c.yml': configuration([web, root]),
  });
  const ended = waybill(['inspect', '-c', 'c.yml', '-p', 'maps', '--format', 'json'], { cwd: place });
  t.equal(ended.status, 1);
  t.match(document(t, ended), { warnings: [{ code: 'newest_unknown', message: /"bad"/ }] });
});

t.test('validate accepts only a directory, and reports anything else', async (t) => {
  const place = t.testdir({ bundle });
  t.match(waybill(['validate', 'bundle/manifest.json'], { cwd: place }), {
    status: 1,
    stdout: '',
    stderr: /is not a directory[^]*next {3}name the directory that holds the manifest/,
  });
});

t.test('reconcile-state repairs the records of one owner, or of all, and changes no file', async (t) => {
  const place = t.testdir({
    source: { one: bundle },
    'c.yml': configuration([web]),
    'other.yml': configuration([web]).replace('id: maps', 'id: other'),
  });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  mkdirSync(path.join(place, 'more/one'), { recursive: true });
  writeFileSync(path.join(place, 'more/one/manifest.json'), manifest(['theirs.txt']));
  writeFileSync(path.join(place, 'more/one/theirs.txt'), 'theirs');
  writeFileSync(
    path.join(place, 'other.yml'),
    readFileSync(path.join(place, 'other.yml'), 'utf8').replace('./source', './more'),
  );
  t.equal(waybill(['run', '-c', 'other.yml'], { cwd: place }).status, 0);
  rmSync(path.join(place, 'web/one/a.txt'));
  rmSync(path.join(place, 'web/one/theirs.txt'));
  writeFileSync(path.join(place, 'web/one/stray.txt'), 'stray');
  const arguments_ = ['reconcile-state', '-c', 'c.yml', '-p', 'maps', '-d', 'web', '--format', 'json'];

  const before = fingerprint(place);
  const dry = document(t, waybill([...arguments_, '--dry-run'], { cwd: place })) as {
    paths: { missing: object[]; unmanaged: string[] }[];
  };
  t.same(fingerprint(place), before);
  t.match(dry.paths[0], {
    missing: [
      { path: 'a.txt', repaired: true },
      { path: 'theirs.txt', repaired: false },
    ],
    unmanaged: ['stray.txt'],
  });
  const recorded = (): string[] =>
    (
      JSON.parse(readFileSync(path.join(place, 'web/one/.publisher.json'), 'utf8')) as {
        outputs: { path: string }[];
      }
    ).outputs.map((output) => output.path);
  t.equal(waybill(arguments_, { cwd: place }).status, 0);
  t.same(recorded(), ['sub/b.txt', 'theirs.txt']);
  t.equal(waybill([...arguments_, '--all-owners'], { cwd: place }).status, 0);
  t.same(recorded(), ['sub/b.txt']);
  t.ok(existsSync(path.join(place, 'web/one/stray.txt')));
  t.match(waybill(['run', '-c', 'c.yml'], { cwd: place }), { status: 0, stdout: /upsert_additive/ });
});

t.test('prune must be enabled, previews its removals and performs them', async (t) => {
  const place = t.testdir({
    source: { one: bundle },
    'off.yml': configuration([web]),
    'c.yml': configuration([`${web}, retention: {prune: {enabled: true, keep_latest: 1}}`]),
  });
  waybill(['run', '-c', 'c.yml'], { cwd: place });
  const prune = (config: string, ...more: string[]): ReturnType<typeof waybill> =>
    waybill(['prune', '-c', config, '-p', 'maps', '-d', 'web', ...more], { cwd: place });
  t.match(prune('off.yml', '--dry-run'), {
    status: 2,
    stdout: '',
    stderr: /retention\.prune\.enabled: true/,
  });
  const before = fingerprint(place);
  t.match(prune('c.yml', '--dry-run'), {
    status: 0,
    stdout: /keep {3}one\/a\.txt[^]*prune {2}one\/sub\/b\.txt[^]*1 output would be removed/,
  });
  t.same(fingerprint(place), before);
  const applied = prune('c.yml', '--apply', '--format', 'json');
  t.equal(applied.status, 0);
  t.match(document(t, applied), { removed: [{ destination_path: 'one', path: 'sub/b.txt' }] });
  t.notOk(existsSync(path.join(place, 'web/one/sub')));
  t.equal(waybill(['verify', '-c', 'c.yml'], { cwd: place }).status, 0);
});

t.test('unpublish removes one bundle path, and explains why it rejects others', async (t) => {
  const place = t.testdir({
    source: { one: bundle, two: structuredClone(bundle) },
    'c.yml': configuration([`${web}, limits: {max_removed: 50%}`]),
    'two.yml': configuration([web, root]),
  });
  t.equal(waybill(['run', '-c', 'c.yml'], { cwd: place }).status, 0);
  const take = (...more: string[]): ReturnType<typeof waybill> =>
    waybill(['unpublish', ...more, '-c', 'c.yml', '-p', 'maps'], { cwd: place });
  const before = fingerprint(place);
  t.match(take('oen'), {
    status: 2,
    stdout: '',
    stderr: /"oen" is not a managed bundle path[^]*did you mean "one"\?/,
  });
  t.match(take('../one'), { status: 2, stdout: '', stderr: /not a bundle path/ });
  t.match(take('.'), { status: 2, stdout: '', stderr: /published here: one, two/ });
  t.match(waybill(['unpublish', 'one', '-c', 'two.yml', '-p', 'maps'], { cwd: place }), {
    status: 2,
    stderr: /several destinations[^]*web \| root/,
  });
  t.match(take('one'), { status: 1, stdout: /failed {2}"one": 2 of 2[^]*next +.*--allow-removals/ });
  t.match(take('one', '--dry-run', '--allow-removals'), {
    status: 0,
    stdout: /remove {2}one\/a\.txt\nremove {2}one\/sub\/b\.txt\n.*2 outputs \(2 B\) would be removed/,
  });
  t.same(fingerprint(place), before, 'nothing was changed');
  const taken = take('one/', '-d', 'web', '--allow-removals', '--format', 'json');
  t.equal(taken.status, 0, taken.stderr);
  t.match(document(t, taken), {
    destination_path: 'one',
    outputs: ['a.txt', 'sub/b.txt'],
    removes_catalog: true,
    error: null,
  });
  t.same(readdirSync(path.join(place, 'web')), ['two'], 'no files are left');
  t.match(take('one'), { status: 2, stderr: /published here: two/ });
  t.match(waybill(['run', '-c', 'c.yml'], { cwd: place }), {
    status: 0,
    stdout: /publish_new=1.*skip_same=1/,
  });
  writeFileSync(path.join(place, 'c.yml'), configuration([web]).replace('id: maps', 'id: others'));
  const refused = waybill(['unpublish', 'two', '-c', 'c.yml', '-p', 'others', '--format', 'json'], {
    cwd: place,
  });
  t.equal(refused.status, 1);
  t.match(document(t, refused), {
    error: { code: 'not_owned', message: /maps\/web/ },
    outputs: { length: 0 },
  });
});

t.test('config check and config schema', async (t) => {
  const place = t.testdir({ 'c.yml': configuration([web]), 'bad.yml': 'pipelines: [' });
  t.match(waybill(['config', 'check', '-c', 'c.yml'], { cwd: place }), {
    status: 0,
    stdout: /valid.*1 pipeline/,
  });
  document(t, waybill(['config', 'check', '-c', 'c.yml', '--format', 'json'], { cwd: place }));
  t.match(waybill(['config', 'check', '-c', 'bad.yml'], { cwd: place }), {
    status: 2,
    stdout: '',
    stderr: /bad\.yml:1/,
  });
  t.same(
    JSON.parse(waybill(['config', 'schema']).stdout),
    JSON.parse(readFileSync('schemas/config.schema.json', 'utf8')),
  );
});

t.test('serve publishes an upload by curl, and ends at SIGTERM', async (t) => {
  await ensureInstalled('curl');
  const place = t.testdir({
    bundle: {
      ...bundle,
      'manifest.json': manifest(['a.txt', 'sub/b.txt'], '2026-11-20T01:02:03Z', { name: 'session-42' }),
    },
    'c.yml': [
      'upload_tokens: [{id: ci, value_env: TOKEN_CI, pipelines: [maps]}]',
      'server: {http: {listen: "127.0.0.1:0"}, staging: {directory: ./staging}}',
      'pipelines: [{id: maps, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./web}]}]',
    ].join('\n'),
  });
  await tar.create({ cwd: path.join(place, 'bundle'), file: path.join(place, 'bundle.tar.gz'), gzip: true }, [
    '.',
  ]);
  const child = spawn(process.execPath, [program, 'serve', '-c', 'c.yml'], {
    cwd: place,
    env: { PATH: process.env['PATH'], TOKEN_CI: 'canary-token-of-this-test' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let logged = '';
  let url = '';
  for await (const line of createInterface({ input: child.stderr })) {
    logged += `${line}\n`;
    url = (JSON.parse(line) as { url?: string }).url ?? '';
    if (url !== '') break;
  }
  child.stderr.on('data', (chunk: Buffer) => (logged += chunk.toString()));
  const curl = spawn(
    'curl',
    [
      '-sS',
      '--data-binary',
      '@bundle.tar.gz',
      '-H',
      'Authorization: Bearer canary-token-of-this-test',
      '-H',
      'Content-Type: application/gzip',
      `${url}v1/pipelines/maps/upload`,
    ],
    { cwd: place },
  );
  let answer = '';
  curl.stdout.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  await once(curl, 'close');
  const { run_id: runId, status } = JSON.parse(answer) as { run_id: string; status: string };
  t.equal(status, 'accepted');
  let run: { status: string } = { status };
  while (run.status !== 'succeeded' && run.status !== 'failed')
    run = (await (await fetch(`${url}runs/${runId}`)).json()) as { status: string };
  t.match(run, {
    status: 'succeeded',
    destinations: [{ action: 'publish_new', destination_path: 'session-42', outputs_written: 2 }],
  });
  t.equal(readFileSync(path.join(place, 'web/session-42/sub/b.txt'), 'utf8'), 'b');
  child.kill('SIGTERM');
  const [code] = (await once(child, 'exit')) as [number];
  t.equal(code, 0);
  t.notMatch(logged, 'canary-token-of-this-test');
});
