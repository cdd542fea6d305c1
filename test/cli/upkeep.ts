import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import { document, type Ended, manifest } from './process.ts';

/** A directory of a server, accessed without the program. */
export interface RemoteDirectory {
  /** The settings of the directory in a configuration. */
  settings: string;
  write(name: string, text: string): Promise<void>;
  remove(name: string): Promise<void>;
  /** Every file with its content. */
  read(): Promise<Record<string, string>>;
  /** Metadata that any change would alter. */
  fingerprint(): Promise<unknown>;
}

export interface Remote {
  name: string;
  newDirectory(): Promise<RemoteDirectory>;
  waybill(args: string[]): Promise<Ended>;
}

/** The maintenance commands of the built program, between directories of one server. */
export function upkeepSuite(t: Test, remote: Remote): void {
  t.test(`${remote.name}: files that differ are repaired from the source or another destination`, (t) =>
    repairs(t, remote),
  );
  t.test(`${remote.name}: a plan file is executed exactly, or nothing changes`, (t) => plans(t, remote));
  t.test(`${remote.name}: orphans are reported or removed, and a bundle path is unpublished`, (t) =>
    orphans(t, remote),
  );
}

const created = { old: '2026-11-20T00:00:00Z', new: '2026-11-21T00:00:00Z' };

interface Place {
  source: RemoteDirectory;
  web: RemoteDirectory;
  twin: RemoteDirectory;
  at: (name: string) => string;
  /** Runs a command with the configuration. */
  run: (command: string, ...args: string[]) => Promise<Ended>;
  fingerprint: () => Promise<unknown>;
}

async function layOut(t: Test, remote: Remote, more: { web: string; twin: string }): Promise<Place> {
  const [source, web, twin] = await Promise.all([
    remote.newDirectory(),
    remote.newDirectory(),
    remote.newDirectory(),
  ]);
  const directory = t.testdir({
    'c.yml': [
      'pipelines:',
      '  - id: maps',
      `    source: {${source.settings}}`,
      '    destinations:',
      `      - {id: web, ${web.settings}, ${more.web}}`,
      `      - {id: twin, ${twin.settings}, ${more.twin}}`,
      '',
    ].join('\n'),
  });
  const at = (name: string): string => path.join(directory, name);
  return {
    ...{ source, web, twin, at },
    run: async (command, ...args) => remote.waybill([command, '-c', at('c.yml'), ...args]),
    fingerprint: async () => Promise.all([web.fingerprint(), twin.fingerprint()]),
  };
}

async function repairs(t: Test, remote: Remote): Promise<void> {
  const plain = 'workflow: additive';
  const { source, web, twin, run } = await layOut(t, remote, { web: plain, twin: plain });
  const files = { 'a.txt': 'a', 'b.txt': 'bb', 'sub/c.txt': 'ccc' };
  await source.write('one/manifest.json', manifest(Object.keys(files)));
  for (const [name, text] of Object.entries(files)) await source.write(`one/${name}`, text);
  const published = await run('run');
  t.equal(published.status, 0, published.stderr + published.stdout);
  const whole = await web.read();

  await web.remove('one/a.txt');
  await web.write('one/b.txt', 'BB');
  await web.write('one/sub/c.txt', 'c');
  await source.write('one/b.txt', 'newer');
  await source.write('one/sub/c.txt', 'other');
  await twin.write('one/sub/c.txt', 'x');
  const repair = ['verify', '-p', 'maps', '-d', 'web', '--repair'] as const;
  const expected = {
    clean: false,
    destinations: [
      {
        paths: [
          {
            differing: [{ path: 'a.txt' }, { path: 'b.txt' }, { path: 'sub/c.txt' }],
            repair: {
              repaired: [
                { path: 'a.txt', from: 'source' },
                { path: 'b.txt', from: 'destination "twin"' },
              ],
              unrepaired: [{ path: 'sub/c.txt', reason: /^neither the source nor another destination/ }],
              error: null,
            },
          },
        ],
      },
    ],
  };
  const before = await web.fingerprint();
  const planned = await run(...repair, '--dry-run', '--format', 'json');
  t.equal(planned.status, 1, planned.stderr);
  t.match(document(t, planned), expected);
  t.same(await web.fingerprint(), before, 'a dry run changes nothing');
  const done = await run(...repair, '--format', 'json');
  t.equal(done.status, 1, 'unrepairable files are a failure');
  t.match(document(t, done), expected);
  const repaired = await web.read();
  t.match(repaired, { 'one/a.txt': 'a', 'one/b.txt': 'bb', 'one/sub/c.txt': 'c' });
  t.same(Object.keys(repaired).sort(), Object.keys(whole).sort(), 'no other files are left');
  t.match(await run(...repair), {
    status: 1,
    stdout: /not repaired {2}sub\/c\.txt {2}neither the source nor another destination/,
  });

  await source.write('one/sub/c.txt', 'ccc');
  t.match(await run(...repair), { status: 0, stdout: /clean .*1 file written again/ });
  t.match(await run('verify', '-d', 'web'), { status: 0, stdout: /clean/ });
  await source.write('one/b.txt', 'bb');
  t.match(await run('run'), { status: 0, stdout: /skip_same=2/ });
  t.equal((await twin.read())['one/sub/c.txt'], 'x', 'a repair changes no other destination');
}

async function plans(t: Test, remote: Remote): Promise<void> {
  const place = await layOut(t, remote, { web: 'workflow: replacement', twin: 'mapping: fixed' });
  const { source, web, twin, at, run, fingerprint } = place;
  await source.write('one/manifest.json', manifest(['a.txt', 'b.txt'], created.old));
  for (const name of ['a', 'b']) await source.write(`one/${name}.txt`, name);
  await source.write('two/manifest.json', manifest(['c.txt'], created.new));
  await source.write('two/c.txt', 'c');
  const planFile = at('plan.json');
  const before = await fingerprint();
  const planned = await run('run', '--dry-run', '--out', planFile);
  t.equal(planned.status, 0, planned.stderr + planned.stdout);
  const refused = async (file: string, message: RegExp): Promise<void> => {
    const untouched = await fingerprint();
    t.match(await run('run', '--plan', file), { status: 2, stdout: '', stderr: message });
    t.same(await fingerprint(), untouched, `${String(message)}: nothing is changed`);
  };
  writeFileSync(at('edited.json'), readFileSync(planFile, 'utf8').replace('"b.txt"', '"x.txt"'));
  await refused(at('edited.json'), /edited.*nothing was published/s);
  await source.write('two/c.txt', 'C');
  await refused(planFile, /maps\/twin \.: the source changed, and 1 more; nothing was changed/);
  await source.write('two/c.txt', 'c');
  t.same(await fingerprint(), before, 'nothing was written so far');
  await web.write('one/stray.txt', 'unmanaged');
  await refused(planFile, /maps\/web one: the files at the destination changed; nothing was changed/);
  await web.remove('one/stray.txt');

  const done = await run('run', '--plan', planFile, '--format', 'json');
  t.equal(done.status, 0, done.stderr);
  t.match(document(t, done), { dry_run: false, counters: { publish_new: 3 } });
  t.same(Object.keys(await web.read()).sort(), [
    'one/.publisher.json',
    'one/a.txt',
    'one/b.txt',
    'two/.publisher.json',
    'two/c.txt',
  ]);
  t.same(Object.keys(await twin.read()).sort(), ['.publisher.json', 'c.txt']);
  await refused(planFile, /the state of the destination changed, and 2 more; nothing was changed/);
}

async function orphans(t: Test, remote: Remote): Promise<void> {
  const settings = { web: 'orphans: remove', twin: 'orphans: report' };
  const { source, web, twin, run, fingerprint } = await layOut(t, remote, settings);
  for (const bundle of ['new', 'old/x']) {
    await source.write(`${bundle}/manifest.json`, manifest(['a.txt', 'd/b.txt']));
    await source.write(`${bundle}/a.txt`, bundle);
    await source.write(`${bundle}/d/b.txt`, 'b');
  }
  const published = await run('run');
  t.equal(published.status, 0, published.stderr + published.stdout);
  await web.write('old/x/d/mine.txt', 'unmanaged');
  for (const name of ['manifest.json', 'a.txt', 'd/b.txt']) await source.remove(`old/x/${name}`);

  const gone = { destination_path: 'old/x', outputs: ['a.txt', 'd/b.txt'], bytes: 6, error: null };
  const expected = {
    pipelines: [
      {
        destinations: [
          { destination_id: 'web', orphans: [{ ...gone, action: 'unpublish' }] },
          { destination_id: 'twin', orphans: [{ ...gone, action: 'keep' }] },
        ],
      },
    ],
  };
  const before = await fingerprint();
  t.match(document(t, await run('run', '--dry-run', '--format', 'json')), expected);
  t.same(await fingerprint(), before, 'a dry run changes nothing');
  const done = await run('run', '--format', 'json');
  t.equal(done.status, 0, done.stderr);
  t.match(document(t, done), expected, 'and predicts the run');
  const kept = ['new/.publisher.json', 'new/a.txt', 'new/d/b.txt'];
  t.same(Object.keys(await web.read()).sort(), [...kept, 'old/x/d/mine.txt']);
  t.match(await run('run'), { status: 0, stdout: /target=old\/x .*stays published/ });

  const unpublish = ['-p', 'maps', '-d', 'twin', 'old/x'];
  t.match(await run('unpublish', ...unpublish), { status: 0 });
  t.same(Object.keys(await twin.read()).sort(), kept);
  const after = await fingerprint();
  t.match(await run('unpublish', ...unpublish), { status: 2, stderr: /not a managed bundle path/ });
  t.match(await run('run'), { status: 0, stdout: /skip_same=2\s*$/ });
  t.same(await fingerprint(), after, 'there are no more changes');
}
