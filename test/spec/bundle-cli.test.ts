import { existsSync, mkdirSync } from 'node:fs';
import t from 'tap';
import { pipeline, type RunDocument, waybill, web, World } from './harness.ts';

/** "Command-line operations" and the rules for `run`, with local directories. */

const fixed = 'id: root, backend: local, path: ./root, mapping: fixed';
const one = { 'a.txt': 'a' };

t.test(
  '`inspect` · `--config <file> --pipeline <pipeline_id>` `[--format json]` · Diagnostics for a configured source.',
  async (t) => {
    const world = new World(t, pipeline([web]));
    world.bundle('one', one);
    world.write('source/broken/manifest.json', '{}');
    const inspect = ['inspect', '--config', 'c.yml', '--pipeline', 'maps'];
    t.match(await world.cli(...inspect), { stdout: /one[^]*broken|broken[^]*one/ });
    const { bundles } = JSON.parse((await world.cli(...inspect, '--format', 'json')).stdout) as {
      bundles: { path: string; valid: boolean }[];
    };
    t.same(Object.fromEntries(bundles.map(({ path, valid }) => [path, valid])), { broken: false, one: true });
  },
);

t.test(
  '`run` · `--config <file>` `[--dry-run]` `[--force]` `[--format json]` · Publishes to all destinations of the pipelines.',
  async (t) => {
    const more = `  - id: docs
    source: {backend: local, path: ./source}
    destinations: [{id: docs, backend: local, path: ./docs}]
`;
    const world = new World(t, pipeline([web, fixed]) + more);
    world.bundle('one', one);
    t.equal((await world.run('--dry-run')).status, 0);
    t.notOk(existsSync(world.at('web')));
    t.equal((await world.run('--force', '--format', 'json')).status, 0);
    for (const file of ['web/one/a.txt', 'root/a.txt', 'docs/one/a.txt']) t.ok(existsSync(world.at(file)));
  },
);

t.test('Text and JSON forms both exist.', async (t) => {
  const world = new World(t, pipeline([web]));
  world.bundle('one', one);
  for (const command of [
    ['run', '-c', 'c.yml'],
    ['inspect', '-c', 'c.yml', '-p', 'maps'],
    ['validate', 'source/one'],
    ['reconcile-state', '-c', 'c.yml', '-p', 'maps', '-d', 'web'],
  ]) {
    const text = await world.cli(...command, '--format', 'text');
    t.throws(() => JSON.parse(text.stdout) as unknown, `${command[0]}: text`);
    const json = await world.cli(...command, '--format', 'json');
    t.match(JSON.parse(json.stdout), { kind: command[0] }, `${command[0]}: JSON`);
  }
});

t.test('dry runs', async (t) => {
  const journal = 'notifiers: [{id: journal, kind: file, path: ./events.jsonl}]';
  const world = new World(t, pipeline([web], journal));
  world.bundle('one', one);
  world.bundle('two', { 'b.txt': 'b' });
  world.write('web/two/other.txt', 'theirs');
  const before = world.files('.');
  const ended = await world.run('--dry-run');
  const after = world.files('.');

  t.test(
    '`--dry-run` loads config, resolves credentials, discovers bundles, opens destinations, inspects state, builds plans and prints actions.',
    async (t) => {
      t.match(ended.stdout, /target=one +publish_new/);
      t.match(ended.stdout, /target=two +fail_unmanaged/);
      const unresolved = `pipelines: [{id: maps, source: {backend: local, path: ./source}, destinations: [
        {id: cdn, backend: s3, bucket: b, access_key_id_env: NONE, secret_access_key_env: NONE}]}]`;
      world.write('secret.yml', unresolved);
      const secret = await world.cli('run', '--dry-run', '-c', 'secret.yml');
      t.match(secret, { status: 2, stderr: /NONE/ }, 'credentials are resolved');
      world.write('closed.yml', pipeline(['id: web, backend: local, path: ./closed.yml/x']));
      t.equal((await world.cli('run', '--dry-run', '-c', 'closed.yml')).status, 1, 'destinations are opened');
    },
  );

  t.test(
    'It writes no outputs, no `.publisher.json`, no notifier events and no SSH known_hosts entries.',
    async (t) => {
      t.same(after, before);
    },
  );
});

t.test(
  'Summaries count separately: `publish_new`, `upsert_additive`, `replace_catalog`, `skip_same`, `force_replace`, `fail_unmanaged`, `fail_conflict`, failed destinations.',
  async (t) => {
    const world = new World(
      t,
      pipeline([
        'id: same, backend: local, path: ./same',
        'id: added, backend: local, path: ./added',
        'id: replaced, backend: local, path: ./replaced, workflow: replacement',
      ]),
    );
    world.bundle('one', one);
    const first = await world.run();
    t.match(first.stdout, /publish_new=3/);
    for (const place of ['added', 'replaced', 'conflict', 'unmanaged'])
      world.write(
        `${place}/one/.publisher.json`,
        JSON.stringify({ ...world.state('same/one'), outputs: [], bundles: [] }),
      );
    for (const place of ['added', 'replaced']) world.remove(`${place}/one/a.txt`);
    world.write('conflict/one/.publisher.json', '{}');
    world.remove('unmanaged/one/.publisher.json');
    world.write('unmanaged/one/other.txt', 'theirs');
    const destination = (id: string, more = ''): string => `id: ${id}, backend: local, path: ./${id}${more}`;
    world.write(
      'c.yml',
      pipeline([
        ...['new', 'same', 'added', 'conflict', 'unmanaged'].map((id) => destination(id)),
        destination('replaced', ', workflow: replacement'),
      ]),
    );
    const { counters } = await world.runDocument('--dry-run');
    t.same(counters, {
      publish_new: 1,
      upsert_additive: 1,
      replace_catalog: 1,
      skip_same: 1,
      force_replace: 0,
      fail_unmanaged: 1,
      fail_conflict: 1,
      failed_destinations: 2,
    });
    const forced = await world.runDocument('--dry-run', '--force');
    t.match(forced.counters, { force_replace: 2, failed_destinations: 0 });
  },
);

t.test(
  'JSON output holds warnings, pipeline summaries, destination action records, output records, URLs when configured, final counters and partial-failure details.',
  async (t) => {
    const world = new World(
      t,
      pipeline([`${web}, public_base_url: "https://maps.example/"`, 'id: bad, backend: local, path: ./file']),
    );
    world.write('file', 'in the way');
    world.bundle('one', one);
    const document = await world.runDocument();
    t.ok(Array.isArray(document.warnings));
    t.match(document, {
      counters: { publish_new: 1, failed_destinations: 1 },
      pipelines: [
        {
          pipeline_id: 'maps',
          status: 'failed',
          bundles: 1,
          destinations: [
            {
              destination_id: 'web',
              actions: [
                {
                  action: 'publish_new',
                  outputs: [{ path: 'a.txt', url: 'https://maps.example/one/a.txt', size: 1 }],
                },
              ],
            },
            { destination_id: 'bad', status: 'failed', error: { code: String, message: String } },
          ],
        },
      ],
    });
  },
);

t.test('fatal setup failures', async (t) => {
  const world = new World(t, 'pipelines: 7');
  world.write('secrets.yml', pipeline([web], 'secrets: {directory: ./none}'));
  const files = ['none.yml', 'c.yml', 'secrets.yml'];
  const ended = await Promise.all(files.map((file) => world.cli('run', '-c', file, '--format', 'json')));

  t.test(
    'Fatal setup failures (unreadable config, invalid secrets) produce no JSON result document.',
    async (t) => {
      for (const { stdout, stderr } of ended) {
        t.equal(stdout, '');
        t.match(JSON.parse(stderr.trim().split('\n').at(-1) ?? ''), { kind: 'error' });
      }
    },
  );

  t.test('Unreadable config or invalid secrets · fatal setup failure; no JSON result document', async (t) => {
    for (const { status, stdout } of ended) t.same([status, stdout], [2, '']);
  });
});

t.test(
  'Fixed destinations add warnings naming the selected bundle and warn when the destination root would be replaced; the destination path is reported as `.` (text `target=.`, JSON `destination_path`).',
  async (t) => {
    const world = new World(t, pipeline([`${fixed}, workflow: replacement`]));
    world.bundle('old', one, '2026-11-19T00:00:00Z');
    world.bundle('new', one);
    const warningsOf = ({ pipelines }: RunDocument): string =>
      (pipelines[0]?.destinations[0]?.warnings ?? []).map(({ message }) => message).join('\n');
    const first = await world.runDocument();
    t.match(warningsOf(first), /"new".*was selected/);
    t.equal(first.pipelines[0]?.destinations[0]?.actions[0]?.destination_path, '.');
    world.bundle('newer', { 'b.txt': 'b' }, '2026-11-21T00:00:00Z');
    t.match(warningsOf(await world.runDocument('--dry-run')), /would be replaced/);
    t.match((await world.run()).stdout, /target=\. +replace_catalog/);
  },
);

t.test('`--force` applies to one invocation only; no config field enables it.', async (t) => {
  const world = new World(t, pipeline([web]));
  world.bundle('one', one);
  world.write('web/one/other.txt', 'theirs');
  t.same(await world.actions('--force'), ['force_replace']);
  world.remove('web/one/.publisher.json');
  world.write('web/one/other.txt', 'theirs');
  t.same(await world.actions(), ['fail_unmanaged'], 'the next run does not force');
  world.write('c.yml', pipeline([`${web}, force: true`]));
  t.match(await world.run(), { status: 2, stderr: /force: no setting forces a publication/ });
});

t.test(
  'Forced replacement deletes only the destination bundle path (for fixed destinations, the whole configured root); it never touches parents, siblings or storage outside it.',
  async (t) => {
    const world = new World(t, pipeline(['id: web, backend: local, path: ./area/web', fixed]));
    world.bundle('deep/one', one);
    const outside = {
      'area/outside.txt': 'outside the root',
      'area/web/parent.txt': 'at the root',
      'area/web/deep/parent.txt': 'in the parent',
      'area/web/deep/one-sibling/x.txt': 'a sibling',
    };
    for (const [name, content] of Object.entries(outside)) world.write(name, content);
    for (const name of ['area/web/deep/one/x.txt', 'root/x.txt', 'root/y/x.txt']) world.write(name, 'x');
    mkdirSync(world.at('area/web/deep/one/empty'));
    t.same(await world.actions('--force'), ['force_replace', 'force_replace']);
    for (const [name, content] of Object.entries(outside)) t.equal(world.files('.')[name], content, name);
    t.same(Object.keys(world.files('area/web/deep/one')), ['.publisher.json', 'a.txt']);
    t.same(Object.keys(world.files('root')), ['.publisher.json', 'a.txt']);
  },
);

t.test(
  '`validate` · `<bundle_path>`, or `--config <file> --pipeline <pipeline_id>` · Validates a bundle; the configured form works for local, SSH/SFTP and S3-compatible sources.',
  async (t) => {
    // `bundle-servers.test.ts` has the other sources.
    const world = new World(t, pipeline([web]));
    world.bundle('one', one);
    for (const args of [['source/one'], ['--config', 'c.yml', '--pipeline', 'maps']])
      t.equal((await waybill(world.root, ['validate', ...args])).status, 0);
    world.remove('source/one/a.txt');
    for (const args of [['source/one'], ['--config', 'c.yml', '--pipeline', 'maps']])
      t.match(await waybill(world.root, ['validate', ...args]), { status: 1, stdout: /a\.txt/ });
  },
);
