import { appendFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { type AuditRecord, parseLine } from '../../../../src/core/audit/record.ts';
import { document, type Ended, errorDocument, manifest, waybill } from '../../process.ts';

interface Place {
  directory: string;
  run: (...args: string[]) => Ended;
  records: () => AuditRecord[];
  file: () => string;
}

function layOut(t: Test, audit = 'audit: {}'): Place {
  const directory = t.testdir({
    source: { 'manifest.json': manifest(['a.txt']), 'a.txt': 'a' },
  });
  writeFileSync(
    path.join(directory, 'c.yml'),
    `${audit}
pipelines:
  - id: maps
    source: {backend: local, path: ./source}
    destinations:
      - {id: web, backend: local, path: ./web, layout: releases}
      - {id: files, backend: local, path: ./files, retention: {prune: {enabled: true, keep_latest: 0}}}
`,
  );
  const trail = path.join(directory, 'audit');
  const file = (): string =>
    path.join(
      trail,
      readdirSync(trail)
        .filter((name) => name.endsWith('.jsonl'))
        .sort()
        .at(-1) ?? '',
    );
  return {
    directory,
    run: (...args) => waybill([...args, '-c', 'c.yml'], { cwd: directory }),
    records: () =>
      readFileSync(file(), 'utf8')
        .split('\n')
        .flatMap((line) => parseLine(line) ?? []),
    file,
  };
}

const brief = ({
  act,
  result,
  code,
  pipeline_id: pipeline,
  destination_id: destination,
}: AuditRecord): string =>
  [act, result, code, pipeline, destination].filter((part) => part !== null).join(' ');

t.test('a missing trail is an error, and not a trail without problems', (t) => {
  const { directory, run } = layOut(t);
  mkdirSync(path.join(directory, 'empty'));
  const inDirectory = (name: string): Ended[] =>
    ['show', 'verify'].map((verb) => waybill(['audit', verb, '--directory', path.join(directory, name)]));
  for (const ended of [
    ...['empty', 'nowhere', 'c.yml/audit', 'x'.repeat(300)].flatMap(inDirectory),
    run('audit', 'verify'),
  ])
    t.match(ended, {
      status: 2,
      stdout: '',
      stderr: /^error  (there is no audit trail in|the audit trail) .*\nnext/,
    });
  t.end();
});

t.test('each command that changes something has a record, and dry runs have none', (t) => {
  const { run, records } = layOut(t);
  const on = ['-p', 'maps', '-d', 'web'];
  t.equal(run('run', '--dry-run').status, 0);
  t.equal(run('run', '-p', 'maps', '--force').status, 0);
  t.match(run('promote', 'maps/web', 'maps/files'), { status: 0 });
  t.equal(run('releases', 'rollback', ...on).status, 1);
  t.equal(run('releases', 'tidy', ...on).status, 0);
  t.equal(run('verify', '--repair', '-d', 'web').status, 0);
  t.equal(run('reconcile-state', '-p', 'maps', '-d', 'files').status, 0);
  t.equal(run('prune', '-p', 'maps', '-d', 'files', '--apply').status, 0);
  t.equal(run('unpublish', '.', ...on).status, 0);
  t.equal(run('unpublish', 'nowhere', ...on).status, 2);
  const all = records();
  t.same(
    all.map(brief).filter((text) => !text.startsWith('publish ')),
    [
      'run.start done maps',
      'run.start done maps files',
      all.map(brief).find((text) => text.startsWith('release.rollback failed')),
      'release.tidy done maps web',
      'catalog.repair done maps web',
      'catalog.reconcile done maps files',
      'prune done maps files',
      'unpublish done maps web',
      'unpublish refused not_published maps web',
    ],
  );
  t.same(
    all
      .map(brief)
      .filter((text) => text.startsWith('publish '))
      .sort(),
    ['publish done maps files', 'publish done maps web'],
  );
  const user = { type: 'os_user', id: 'root', uid: process.getuid?.() };
  t.match(all[0], { actor: user, address: null, detail: { force: true, planned: false } });
  t.same([...new Set(all.map(({ actor }) => actor.id))].length, 1);
  t.end();
});

t.test('audit show selects records, audit verify checks them', (t) => {
  const { directory, run, records, file } = layOut(t);
  t.equal(run('run').status, 0);
  t.equal(run('prune', '-p', 'maps', '-d', 'files', '--apply').status, 0);
  const shown = document(t, run('audit', 'show', '--format', 'json')) as { records: AuditRecord[] };
  t.same(shown.records, records());
  t.match(
    run('audit', 'show', '--act', 'prune').stdout,
    /^\S+Z {2}prune {2}done {2}os_user \S+ {2}- {2}maps\/files/,
  );
  t.equal(run('audit', 'show', '--since', '1h', '-p', 'maps', '--limit', '1').stdout.split('\n').length, 2);
  t.match(run('audit', 'show', '--since', '2999-01-01T00:00:00Z').stderr, /no record matches/);
  t.match(errorDocument(t, run('audit', 'show', '--act', 'prun', '--format', 'json')), {
    error: { hint: /did you mean "prune"/ },
  });
  const whole = run('audit', 'verify');
  t.match(whole, { status: 0, stdout: /^whole {2}4 records in 1 file, the last is 4:sha256:/ });
  const end = /(4:sha256:\S+)/.exec(whole.stdout)?.[1] ?? '';
  appendFileSync(file(), '{"torn":');
  t.match(run('audit', 'verify', '--contains', end), {
    status: 0,
    stdout: /interrupted {2}.*:5 is an interrupted write/,
  });
  writeFileSync(file(), readFileSync(file(), 'utf8').replace('"maps"', '"docs"'));
  const copy = waybill(['audit', 'verify', '--directory', 'audit', '--format', 'json'], { cwd: directory });
  t.equal(copy.status, 1);
  t.match(document(t, copy), { clean: false, problems: [{ fault: 'edited' }] });
  t.end();
});

t.test('a command whose trail cannot be opened changes nothing', (t) => {
  const { directory, run } = layOut(t, 'audit: {directory: ./c.yml/audit}');
  const ended = run('run', '--format', 'json');
  t.equal(ended.status, 1);
  t.match(errorDocument(t, ended), { error: { code: 'audit_unavailable' } });
  t.notOk(readdirSync(directory).includes('web'));
  t.end();
});

t.test('a command sends its records to the notifiers of its act, and warns of failures', (t) => {
  const { directory, run, records } = layOut(
    t,
    `audit: {}
notifiers:
  - {id: log, kind: file, path: ./sent.jsonl, events: [audit.recorded], acts: [release.rollback]}
  - {id: broken, kind: file, path: ./source, events: [audit.recorded], acts: [release.resume]}`,
  );
  const on = ['-p', 'maps', '-d', 'web'];
  t.equal(run('run').status, 0);
  t.equal(run('releases', 'rollback', ...on).status, 1, 'there is no earlier release');
  const sent = readFileSync(path.join(directory, 'sent.jsonl'), 'utf8').trimEnd().split('\n');
  t.same(
    sent.map((line) => (JSON.parse(line) as { data: object }).data),
    [{ record: records().at(-1) }],
  );
  t.match(run('releases', 'resume', ...on).stderr, /notifier "broken": the event audit\.recorded/);
  t.end();
});
