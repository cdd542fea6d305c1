import { chmodSync, existsSync } from 'node:fs';
import t, { type Test } from 'tap';
import { type Ended, pipeline, waybill, web, World } from './harness.ts';

/** The commands `reconcile-state` and `prune`. */

const pruned = (policy: string): string => `${web}, retention: {prune: {enabled: true, ${policy}}}`;

async function reconcile(world: World, ...args: string[]): Promise<Ended> {
  return world.cli(
    'reconcile-state',
    '--config',
    'c.yml',
    '--pipeline',
    'maps',
    '--destination',
    'web',
    ...args,
  );
}

async function prune(world: World, ...args: string[]): Promise<Ended> {
  return world.cli('prune', '--config', 'c.yml', '--pipeline', 'maps', '--destination', 'web', ...args);
}

/** Two pipelines that publish to the same bundle path. An output of each, `a.txt` and `d.txt`, is missing. */
async function shared(t: Test): Promise<World> {
  const second = `  - id: docs
    source: {backend: local, path: ./docs}
    destinations: [{id: web, backend: local, path: ./web}]
`;
  const world = new World(t, pipeline([web]) + second);
  world.bundle('one', { 'a.txt': 'a', 'b.txt': 'b' });
  world.write(
    'docs/one/manifest.json',
    JSON.stringify({ schema_version: 1, created: '2026-11-20T00:00:00Z', files: ['d.txt'] }),
  );
  world.write('docs/one/d.txt', 'd');
  t.equal((await world.run()).status, 0);
  for (const name of ['a.txt', 'd.txt']) world.remove(`web/one/${name}`);
  world.write('web/one/b.txt', 'B');
  world.write('web/one/stray.txt', 'theirs');
  return world;
}

const recorded = (world: World): string[] => world.state('web/one').outputs.map(({ path }) => path);

t.test('reconcile-state', async (t) => {
  const world = await shared(t);
  const state = world.files('web')['one/.publisher.json'];
  const dry = await reconcile(world, '--dry-run');
  const stateAfterDryRun = world.files('web')['one/.publisher.json'];
  const done = await reconcile(world);
  const afterOne = recorded(world);
  const files = world.files('web');
  await reconcile(world, '--all-owners');
  const afterAll = recorded(world);

  t.test(
    '`reconcile-state` · `--config <file> --pipeline <pipeline_id> --destination <destination_id>` `[--dry-run]` `[--all-owners]` · Repairs catalog records of missing outputs.',
    async (t) => {
      t.equal(done.status, 0);
      t.notOk(afterOne.includes('a.txt'));
      t.equal(stateAfterDryRun, state, 'a dry run writes nothing');
    },
  );

  t.test(
    'Reads the root `.publisher.json` of the selected destination, checks recorded output paths against storage metadata, reports missing managed outputs and reports unmanaged entries under the root (excluding `.publisher.json` and managed paths).',
    async (t) => {
      t.match(dry.stdout, 'a.txt');
      t.match(dry.stdout, 'stray.txt');
      t.notMatch(dry.stdout, /b\.txt|\.publisher\.json/);
      const root = new World(t, pipeline([`${web}, mapping: fixed`]));
      root.bundle('one', { 'a.txt': 'a' });
      await root.run();
      root.remove('web/a.txt');
      root.write('web/stray.txt', 'theirs');
      const { stdout } = await reconcile(root, '--dry-run');
      t.match(stdout, /a\.txt[^]*stray\.txt/);
    },
  );

  t.test(
    'Without `--dry-run` it removes records of missing outputs from valid state and rewrites the state file.',
    async (t) => {
      t.same(afterOne, ['b.txt', 'd.txt']);
      t.not(files['one/.publisher.json'], state);
    },
  );

  t.test(
    'It never deletes destination files, adopts unmanaged files, validates digests or rewrites invalid state.',
    async (t) => {
      t.equal(files['one/stray.txt'], 'theirs', 'no file is deleted');
      t.notOk(afterAll.includes('stray.txt'), 'no file is adopted');
      t.ok(afterAll.includes('b.txt'), 'other bytes of the same size are not detected');
      world.write('web/one/.publisher.json', '{"schema_version": 4}');
      t.equal((await reconcile(world)).status, 1);
      t.equal(world.files('web')['one/.publisher.json'], '{"schema_version": 4}');
    },
  );

  t.test(
    'Without `--all-owners` only the selected pipeline/destination owner is repaired; with it every owner in the root is repaired.',
    async (t) => {
      t.ok(afterOne.includes('d.txt'), 'the record of the other owner stays');
      t.same(afterAll, ['b.txt']);
    },
  );
});

/** A world in which `a.txt`, `b.txt` and `c.txt` were written one after another. */
async function threeOutputs(t: Test, policy: string): Promise<World> {
  const world = new World(t, pipeline([pruned(policy)]));
  for (const [day, name] of ['a.txt', 'b.txt', 'c.txt'].entries()) {
    if (day > 0) world.remove('source/one');
    world.bundle('one', { [name]: name }, `2026-11-2${day}T00:00:00Z`);
    t.equal((await world.run()).status, 0);
  }
  return world;
}

/** Sets the times of the records, which the program reads unchanged. */
function setTimes(world: World, times: Record<string, string>): void {
  const state = world.state('web/one');
  const outputs = state.outputs.map((one) => ({ ...one, updated_at: times[one.path] ?? one.updated_at }));
  world.write('web/one/.publisher.json', JSON.stringify({ ...state, outputs }));
}

t.test('prune', async (t) => {
  const world = await threeOutputs(t, 'keep_latest: 1');
  world.write('web/one/stray.txt', 'theirs');
  const afterRuns = recorded(world);
  // The first output becomes the newest.
  setTimes(world, {
    'a.txt': '2026-11-26T00:00:00Z',
    'b.txt': '2026-01-01T00:00:00Z',
    'c.txt': '2026-01-02T00:00:00Z',
  });
  const before = world.files('web');
  const dry = await prune(world, '--dry-run');
  const afterDryRun = world.files('web');
  const stateBefore = world.state('web/one').updated_at;
  const done = await prune(world, '--apply');
  const files = world.files('web');

  t.test(
    "`prune` · `--config <file> --pipeline <pipeline_id> --destination <destination_id>` with `--dry-run` or `--apply` · Removes old managed outputs per the destination's retention.prune policy.",
    async (t) => {
      t.same([dry.status, done.status], [0, 0]);
      t.same(recorded(world), ['a.txt']);
    },
  );

  t.test('Never automatic after publish; requires `retention.prune.enabled: true`.', async (t) => {
    t.same(afterRuns, ['a.txt', 'b.txt', 'c.txt']);
    world.write('off.yml', pipeline([`${web}, retention: {prune: {enabled: false, keep_latest: 1}}`]));
    t.equal((await world.cli('prune', '-c', 'off.yml', '-p', 'maps', '-d', 'web', '--apply')).status, 2);
  });

  t.test("Selection uses each managed output's `updated_at`.", async (t) => {
    t.ok(existsSync(world.at('web/one/a.txt')), 'its record is the newest');
    t.notOk(existsSync(world.at('web/one/c.txt')));
  });

  t.test('`--dry-run` deletes nothing and does not rewrite state.', async (t) => {
    t.same(afterDryRun, before);
  });

  t.test(
    '`--apply` deletes only planned managed output paths of the selected owner, preserves unmanaged files and `.publisher.json`, removes confirmed deletions from state and updates the state timestamp.',
    async (t) => {
      t.same(Object.keys(files), ['one/.publisher.json', 'one/a.txt', 'one/stray.txt']);
      t.ok(world.state('web/one').updated_at > stateBefore);
      const two = await shared(t);
      two.write('c.yml', two.files('.')['c.yml']?.replace(web, pruned('older_than: 1s')) ?? '');
      await new Promise((resolve) => setTimeout(resolve, 1_100));
      t.equal((await prune(two, '--apply')).status, 0);
      t.same(recorded(two), ['d.txt'], 'records of the other owner stay');
    },
  );

  t.test('retention.prune.enabled · Boolean; pruning requires it to be true.', async (t) => {
    world.write('off.yml', pipeline([`${web}, retention: {prune: {enabled: false, keep_latest: 1}}`]));
    const off = await world.cli('prune', '-c', 'off.yml', '-p', 'maps', '-d', 'web', '--dry-run');
    t.match(off, { status: 2, stderr: /retention\.prune\.enabled/ });
    world.write('text.yml', pipeline([`${web}, retention: {prune: {enabled: "yes", keep_latest: 1}}`]));
    t.match(await world.cli('config', 'check', '-c', 'text.yml'), { status: 2, stderr: /enabled/ });
  });

  t.test('retention.prune.keep_latest · Number of newest managed outputs to preserve.', async (t) => {
    const kept = await threeOutputs(t, 'keep_latest: 2');
    await prune(kept, '--apply');
    t.same(recorded(kept), ['b.txt', 'c.txt']);
  });
});

const times = { 'a.txt': '2026-01-01T00:00:00Z', 'b.txt': '2026-01-02T00:00:00Z' };

t.test('retention.prune.older_than · Age threshold for pruning.', async (t) => {
  const world = await threeOutputs(t, 'older_than: 1d');
  setTimes(world, times);
  await prune(world, '--apply');
  t.same(recorded(world), ['c.txt']);
});

t.test(
  'When both `keep_latest` and `older_than` are set, the newest `keep_latest` outputs are preserved before the age policy applies.',
  async (t) => {
    const world = await threeOutputs(t, 'keep_latest: 2, older_than: 1d');
    setTimes(world, { ...times, 'c.txt': '2026-01-03T00:00:00Z' });
    await prune(world, '--apply');
    t.same(recorded(world), ['b.txt', 'c.txt']);
  },
);

t.test(
  'If a delete fails after earlier deletes succeeded, state is rewritten only for confirmed deletions; failed and unattempted records remain.',
  async (t) => {
    const world = new World(t, pipeline([pruned('older_than: 1d')]));
    world.bundle('one', { 'a.txt': 'a', 'closed/b.txt': 'b' });
    t.equal((await world.run()).status, 0);
    setTimes(world, { 'a.txt': '2026-01-01T00:00:00Z', 'closed/b.txt': '2026-01-02T00:00:00Z' });
    chmodSync(world.at('web/one/closed'), 0o555);
    const args = ['prune', '-c', 'c.yml', '-p', 'maps', '-d', 'web', '--apply'];
    const ended = await waybill(world.root, args, {}, { unprivileged: true });
    chmodSync(world.at('web/one/closed'), 0o755);
    t.equal(ended.status, 1, ended.stdout + ended.stderr);
    t.same(
      recorded(world),
      ['closed/b.txt'],
      'the record of the failed deletion stays, the other is removed',
    );
    t.same(Object.keys(world.files('web/one')), ['.publisher.json', 'closed/b.txt']);
  },
);
