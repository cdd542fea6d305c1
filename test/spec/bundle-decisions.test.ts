import { existsSync, readFileSync, statSync } from 'node:fs';
import t, { type Test } from 'tap';
import { type Action, pipeline, web, World } from './harness.ts';

/** The table "Destination publication decision", and the errors and versions that follow from it. */

const replacement = `${web}, workflow: replacement`;

/** A world in which the bundle `one` with `a.txt` and `b.txt` is published. */
async function published(t: Test, destination = web): Promise<World> {
  const world = new World(t, pipeline([destination]));
  world.bundle('one', { 'a.txt': 'a', 'b.txt': 'b' });
  t.equal((await world.run()).status, 0);
  return world;
}

t.test('No valid state and no destination content · `publish_new` · Publish new outputs.', async (t) => {
  const world = new World(t, pipeline([web]));
  world.bundle('one', { 'a.txt': 'a' });
  t.same(await world.actions(), ['publish_new']);
  t.equal(world.files('web')['one/a.txt'], 'a');
});

t.test('unmanaged content', async (t) => {
  const world = new World(t, pipeline([web]));
  world.bundle('one', { 'a.txt': 'a' });
  world.write('web/one/other.txt', 'theirs');
  const actions = await world.actions();

  t.test(
    'No valid state, destination content exists, no `--force` · `fail_unmanaged` · Nothing is published.',
    async (t) => {
      t.same(actions, ['fail_unmanaged']);
      t.same(world.files('web'), { 'one/other.txt': 'theirs' });
    },
  );

  t.test(
    'Unmanaged destination content or path collision without `--force` · action `fail_unmanaged`',
    async (t) => {
      t.same(actions, ['fail_unmanaged'], 'unmanaged content');
      const collision = await published(t);
      collision.bundle('one', { 'a.txt': 'a', 'c.txt': 'c' }, '2026-11-21T00:00:00Z');
      collision.write('web/one/c.txt', 'theirs');
      t.same(await collision.actions(), ['fail_unmanaged'], 'a path collision');
    },
  );
});

t.test(
  'Planned output path exists in storage but is not recorded in valid state, no `--force` · `fail_unmanaged` · Nothing is published.',
  async (t) => {
    const world = await published(t);
    world.bundle('one', { 'a.txt': 'newer', 'c.txt': 'c' }, '2026-11-21T00:00:00Z');
    world.write('web/one/c.txt', 'theirs');
    const before = world.files('web');
    t.same(await world.actions(), ['fail_unmanaged']);
    t.same(world.files('web'), before);
  },
);

t.test(
  'Valid state, workflow `additive`, planned outputs differ from record · `upsert_additive` · Write planned outputs; keep unrelated catalog outputs.',
  async (t) => {
    const world = await published(t);
    world.remove('source/one');
    world.bundle('one', { 'a.txt': 'newer' }, '2026-11-21T00:00:00Z');
    t.same(await world.actions(), ['upsert_additive']);
    t.match(world.files('web'), { 'one/a.txt': 'newer', 'one/b.txt': 'b' });
    t.same(
      world.state('web/one').outputs.map(({ path }) => path),
      ['a.txt', 'b.txt'],
    );
  },
);

t.test(
  'Valid state, workflow `replacement` · `replace_catalog` · Write planned outputs; remove outputs of this owner that the plan omits.',
  async (t) => {
    const world = await published(t, replacement);
    world.remove('source/one');
    world.bundle('one', { 'a.txt': 'newer' }, '2026-11-21T00:00:00Z');
    t.same(await world.actions(), ['replace_catalog']);
    t.equal(world.files('web')['one/a.txt'], 'newer');
    t.notOk(existsSync(world.at('web/one/b.txt')));
  },
);

t.test(
  'Valid state and planned outputs match recorded metadata · `skip_same` · No output writes, no state rewrite, no deletes, no notification.',
  async (t) => {
    const journal = 'notifiers: [{id: journal, kind: file, path: ./events.jsonl}]';
    for (const destination of [web, replacement]) {
      const world = new World(t, pipeline([destination], journal));
      world.bundle('one', { 'a.txt': 'a' });
      const first = await world.run();
      t.equal(first.status, 0, first.stdout + first.stderr);
      const events = readFileSync(world.at('events.jsonl'), 'utf8');
      t.match(events, 'bundle.published', 'a publication is notified');
      const seen = (): unknown[] =>
        ['a.txt', '.publisher.json'].map((name) => {
          const { ino, mtimeMs } = statSync(world.at(`web/one/${name}`));
          return [ino, mtimeMs];
        });
      const before = seen();
      t.same(await world.actions(), ['skip_same']);
      t.same(seen(), before, 'neither the output nor the state was written');
      t.equal(readFileSync(world.at('events.jsonl'), 'utf8'), events, 'no notification was sent');
    }
  },
);

t.test(
  'Invalid state or unsupported future state, no `--force` · `fail_conflict` · Nothing is published.',
  async (t) => {
    const world = await published(t);
    world.bundle('one', { 'a.txt': 'newer' }, '2026-11-21T00:00:00Z');
    for (const text of ['{"schema_version": 4, "outputs": 7}', '{"schema_version": 99}']) {
      world.write('web/one/.publisher.json', text);
      t.same(await world.actions(), ['fail_conflict']);
      t.equal(world.files('web')['one/a.txt'], 'a');
    }
  },
);

t.test(
  'Invalid or unsupported future destination state without `--force` · action `fail_conflict`',
  async (t) => {
    const world = await published(t);
    world.write('web/one/.publisher.json', '[]');
    t.match(await world.run(), { status: 1, stdout: /target=one +fail_conflict/ });
  },
);

t.test(
  'Unmanaged content, path collision, invalid or unsupported state, with `--force` · `force_replace` · Delete the destination bundle path, write planned outputs and schema version 4 state.',
  async (t) => {
    const spoil: Record<string, (world: World) => void> = {
      'unmanaged content': (world) => world.remove('web/one/.publisher.json'),
      'a path collision': (world) => {
        world.bundle('one', { 'a.txt': 'a', 'c.txt': 'c' }, '2026-11-21T00:00:00Z');
        world.write('web/one/c.txt', 'theirs');
      },
      'an invalid state': (world) => world.write('web/one/.publisher.json', '{'),
      'an unsupported state': (world) => world.write('web/one/.publisher.json', '{"schema_version": 5}'),
    };
    for (const [what, apply] of Object.entries(spoil)) {
      const world = await published(t);
      world.write('web/one/stray.txt', 'theirs');
      apply(world);
      t.same(await world.actions('--force'), ['force_replace'], what);
      t.notOk(existsSync(world.at('web/one/stray.txt')), `${what}: the bundle path is deleted`);
      const { schema_version, outputs } = world.state('web/one');
      t.equal(schema_version, 4);
      for (const { path } of outputs) t.ok(existsSync(world.at(`web/one/${path}`)), `${what}: ${path}`);
    }
  },
);

const legacy = [
  '{"version": 1, "published_at": "2024-05-01T00:00:00Z"}',
  '{"version": 2, "files": ["a.txt"]}',
  '{"schema_version": 3, "pipeline_id": "maps", "destination_id": "web", "outputs": []}',
];

t.test('superseded states', async (t) => {
  const worlds = await Promise.all(
    legacy.map(async (text) => {
      const world = new World(t, pipeline([web]));
      world.bundle('one', { 'a.txt': 'new' });
      world.write('web/one/a.txt', 'old');
      world.write('web/one/.publisher.json', text);
      return { world, actions: await world.actions() };
    }),
  );

  t.test(
    'Superseded legacy state · (publishes normally) · Published through the catalog planner; schema version 4 state is written on success.',
    async (t) => {
      for (const { world, actions } of worlds) {
        t.same(actions, ['upsert_additive']);
        t.equal(world.files('web')['one/a.txt'], 'new');
        t.equal(world.state('web/one').schema_version, 4);
      }
    },
  );

  t.test(
    'Superseded legacy state is published over and rewritten as version 4; unsupported future state yields `fail_conflict` unless `--force` is given.',
    async (t) => {
      for (const { world } of worlds) t.equal(world.state('web/one').schema_version, 4);
      const [{ world } = { world: new World(t, '') }] = worlds;
      world.write('web/one/.publisher.json', '{"schema_version": 5}');
      t.same(await world.actions(), ['fail_conflict']);
      t.same(await world.actions('--force'), ['force_replace']);
    },
  );
});

t.test(
  'Setup, planning or execution failure for a destination · `error` · That destination is marked failed.',
  async (t) => {
    const failures = {
      setup: (world: World) => world.write('web', 'a file in the way of the destination'),
      planning: (world: World) =>
        world.write('web/one/.publisher.json/x', 'a directory in place of the state'),
      execution: (world: World) => {
        const digest = `sha256:${'0'.repeat(64)}`;
        const files = [{ path: 'a.txt', size: 1, digest }];
        const created = '2026-11-20T00:00:00Z';
        world.write('source/one/manifest.json', JSON.stringify({ schema_version: 1, created, files }));
      },
    };
    for (const [what, spoil] of Object.entries(failures)) {
      const world = new World(t, pipeline([web]));
      world.bundle('one', { 'a.txt': 'a' });
      spoil(world);
      const { pipelines } = await world.runDocument();
      const [destination] = pipelines[0]?.destinations ?? [];
      t.match(destination, { status: 'failed', actions: [{ action: 'error' }] }, what);
      t.match((await world.run()).stdout, /✗ .*error/, `${what}, as text`);
    }
  },
);

t.test(
  '`skip_same` compares owner identity, source identity, output path, kind, digest, size, generated output metadata and URL metadata recorded in state.',
  async (t) => {
    const changes: Record<string, (output: Record<string, unknown>) => void> = {
      'owner identity': (output) => (output['owner'] = { pipeline_id: 'maps', destination_id: 'other' }),
      'source identity': (output) => (output['source'] = { backend: 'local', id: '/other', path: 'one' }),
      'output path': (output) => (output['path'] = 'other.txt'),
      kind: (output) => (output['kind'] = 'other'),
      digest: (output) => (output['digest'] = `sha256:${'0'.repeat(64)}`),
      size: (output) => (output['size'] = 7),
      'generated output metadata': (output) => (output['generated'] = { content_type: 'other/type' }),
      'URL metadata': (output) => (output['url'] = 'https://other.example/'),
    };
    const world = new World(t, pipeline([web]));
    world.bundle('one', { 'a.txt': 'a' });
    await world.run();
    const state = world.files('web')['one/.publisher.json'] ?? '';
    for (const [what, change] of Object.entries(changes)) {
      const changed = JSON.parse(state) as { outputs: Record<string, unknown>[] };
      for (const output of changed.outputs) change(output);
      world.write('web/one/.publisher.json', JSON.stringify(changed));
      t.notSame(await world.actions('--dry-run'), ['skip_same'], what);
    }
    world.write('web/one/.publisher.json', state);
    t.same(await world.actions('--dry-run'), ['skip_same']);
  },
);

t.test('It never reads destination file bytes.', async (t) => {
  const world = await published(t);
  world.write('web/one/a.txt', 'x');
  const { pipelines } = await world.runDocument();
  const actions: Action[] = pipelines[0]?.destinations[0]?.actions ?? [];
  t.match(actions, [{ action: 'skip_same' }], 'other bytes of the same size are not detected');
});
