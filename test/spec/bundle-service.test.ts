import { existsSync } from 'node:fs';
import net from 'node:net';
import t from 'tap';
import { startDaemon } from '../cli/daemon.ts';
import { pipeline, waybill, web, World } from './harness.ts';

/** "What the service does", with local directories. `bundle-servers.test.ts` has SSH/SFTP and S3. */

const fixed = 'id: root, backend: local, path: ./root, mapping: fixed';

t.test(
  'The service publishes source bundles from a configured source to one or more destinations.',
  async (t) => {
    const world = new World(t, pipeline([web, 'id: copy, backend: local, path: ./copy']));
    world.bundle('one', { 'a.txt': 'a' });
    t.equal((await world.run()).status, 0);
    t.equal(world.files('web')['one/a.txt'], 'a');
    t.equal(world.files('copy')['one/a.txt'], 'a');
  },
);

t.test(
  'A source bundle is a directory holding `manifest.json` and every file that the manifest lists.',
  async (t) => {
    const world = new World(t, '');
    world.bundle('one', { 'a.txt': 'a', 'sub/b.txt': 'b' });
    t.equal((await world.cli('validate', 'source/one')).status, 0);
    world.remove('source/one/manifest.json');
    t.equal((await world.cli('validate', 'source/one')).status, 1);
  },
);

t.test('A pipeline connects a source to one or more destinations (fan-out).', async (t) => {
  const world = new World(t, pipeline([web, fixed]));
  world.bundle('one', { 'a.txt': 'a' });
  t.same(await world.actions(), ['publish_new', 'publish_new']);
});

t.test('Configuration is YAML.', async (t) => {
  const world = new World(t, `# a comment\n${pipeline([web])}`);
  t.equal((await world.cli('config', 'check', '--config', 'c.yml')).status, 0);
  world.write('c.yml', 'pipelines: [');
  t.equal((await world.cli('config', 'check', '--config', 'c.yml')).status, 2);
});

t.test('Source discovery walks beneath the source backend root and finds bundle directories.', async (t) => {
  const world = new World(t, pipeline([web]));
  for (const name of ['one', 'deep/er/two', 'deep/three']) world.bundle(name, { 'a.txt': name });
  world.write('source/none/a.txt', 'no manifest here');
  const { stdout } = await world.cli('inspect', '-c', 'c.yml', '-p', 'maps', '--format', 'json');
  const { bundles } = JSON.parse(stdout) as { bundles: { path: string }[] };
  t.same(bundles.map(({ path }) => path).sort(), ['deep/er/two', 'deep/three', 'one']);
});

t.test('Destination path mapping decides where each bundle lands under the destination root:', async (t) => {
  const world = new World(t, pipeline([`${web}, mapping: preserve_relative`, fixed]));
  world.bundle('deep/one', { 'a.txt': 'a' });
  await world.run();
  t.ok(existsSync(world.at('web/deep/one/a.txt')));
  t.ok(existsSync(world.at('root/a.txt')));
});

t.test('`preserve_relative`: each bundle is published at its source-root-relative path.', async (t) => {
  const world = new World(t, pipeline([`${web}, mapping: preserve_relative`]));
  for (const name of ['one', 'deep/two']) world.bundle(name, { 'a.txt': name });
  await world.run();
  t.match(world.files('web'), { 'one/a.txt': 'one', 'deep/two/a.txt': 'deep/two' });
});

t.test('fixed destinations', async (t) => {
  const world = new World(t, pipeline([fixed]));
  world.bundle('old', { 'a.txt': 'old' }, '2026-11-20T00:00:00Z');
  world.bundle('b', { 'a.txt': 'b' }, '2026-11-21T00:00:00Z');
  world.bundle('a', { 'a.txt': 'a' }, '2026-11-21T00:00:00Z');
  const document = await world.runDocument();
  const files = world.files('root');

  t.test('`fixed`: one selected bundle is published at the destination root.', async (t) => {
    t.same(Object.keys(files), ['.publisher.json', 'a.txt']);
    t.equal(document.pipelines[0]?.destinations[0]?.actions.length, 1);
  });

  t.test(
    'The newest bundle by manifest `created` timestamp is selected; ties go to the bundle whose source-root-relative path sorts first in ascending order.',
    async (t) => {
      t.equal(files['a.txt'], 'a');
    },
  );

  t.test('For a fixed destination the resolved destination bundle path is the backend root.', async (t) => {
    t.equal(document.pipelines[0]?.destinations[0]?.actions[0]?.destination_path, '.');
  });
});

t.test('state files', async (t) => {
  const world = new World(t, pipeline([web]));
  world.bundle('deep/one', { 'a.txt': 'a' });
  await world.run();

  t.test('A managed state file named `.publisher.json` lives at the destination bundle path.', async (t) => {
    t.same(Object.keys(world.files('web/deep/one')), ['.publisher.json', 'a.txt']);
  });

  t.test('The source `manifest.json` is not copied as destination state.', async (t) => {
    t.notOk(existsSync(world.at('web/deep/one/manifest.json')));
    t.notMatch(world.state('web/deep/one'), { files: [] });
  });

  t.test('It is both the managed sentinel and the destination catalog.', async (t) => {
    t.same(
      world.state('web/deep/one').outputs.map(({ path }) => path),
      ['a.txt'],
      'the catalog',
    );
    world.remove('web/deep/one/.publisher.json');
    t.same(await world.actions(), ['fail_unmanaged'], 'without the sentinel, the content is unmanaged');
  });
});

t.test('failing destinations', async (t) => {
  const world = new World(t, pipeline(['id: bad, backend: local, path: ./file/x', web]));
  world.write('file', 'in the way');
  world.bundle('one', { 'a.txt': 'a' });
  const ended = await world.run('--format', 'json');

  t.test('Fan-out destinations are independent.', async (t) => {
    const [bad, good] =
      (JSON.parse(ended.stdout) as { pipelines: { destinations: { status: string }[] }[] }).pipelines[0]
        ?.destinations ?? [];
    t.same([bad?.status, good?.status], ['failed', 'ok']);
  });

  t.test(
    'When one fails after planning or execution begins, the remaining destinations are still attempted, and the command exits non-zero if any destination failed.',
    async (t) => {
      t.equal(ended.status, 1);
      t.equal(world.files('web')['one/a.txt'], 'a');
      world.remove('web');
      world.write('web/one/b.txt', 'unmanaged');
      world.write('c.yml', pipeline([web, 'id: copy, backend: local, path: ./copy']));
      t.equal((await world.run()).status, 1, 'a destination fails after its plan');
      t.equal(world.files('copy')['one/a.txt'], 'a');
    },
  );

  t.test('Any destination failed in `run` · non-zero exit code', async (t) => {
    t.equal(ended.status, 1);
  });
});

t.test(
  'When a write fails after some outputs were written, the service attempts cleanup of that attempt before returning the error.',
  async (t) => {
    const world = new World(t, pipeline([`${web}, file_concurrency: 1`]));
    const files = { 'a.txt': 'a', 'b.txt': 'b' };
    world.bundle('one', files);
    await world.run();
    const before = world.files('web');
    // The second file is shorter than in its manifest, which is only detected when it is read.
    world.bundle('one', { 'a.txt': 'newer' }, '2026-11-21T00:00:00Z');
    const digest = `sha256:${'0'.repeat(64)}`;
    world.write(
      'source/one/manifest.json',
      JSON.stringify({
        schema_version: 1,
        created: '2026-11-21T00:00:00Z',
        files: ['a.txt', { path: 'b.txt', size: 1, digest }],
      }),
    );
    const ended = await world.run();
    t.equal(ended.status, 1);
    const after = world.files('web');
    t.equal(after['one/a.txt'], before['one/a.txt'], 'the written output is restored');
    t.same(Object.keys(after), Object.keys(before), 'no other files are left');
  },
);

t.test("The upload server's default bind address is private loopback.", async (t) => {
  const world = new World(t, uploads.replace('listen: "127.0.0.1:0", ', ''));
  const blocker = net.createServer().listen(8080, '127.0.0.1');
  t.teardown(() => blocker.close());
  await new Promise((resolve) => blocker.once('listening', resolve).once('error', resolve));
  const ended = await waybill(world.root, ['serve', '-c', 'c.yml'], { TOKEN: 'a-token-of-all-producers' });
  t.not(ended.status, 0);
  t.match(ended.stderr, '127.0.0.1:8080');
});

t.test(
  'The service has no rate limiting or TLS; these belong in a reverse proxy or deployment layer.',
  async (t) => {
    const world = new World(t, uploads);
    const { url } = await startDaemon(t, world.root, { TOKEN: 'a-token-of-all-producers' });
    t.match(url, /^http:/);
    const answers = await Promise.all(Array.from({ length: 300 }, () => fetch(new URL('healthz', url))));
    t.same([...new Set(answers.map(({ status }) => status))], [200], 'no request is limited');
  },
);

const uploads = `
upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [up]}]
server: {http: {listen: "127.0.0.1:0", queue_size: 4}, staging: {directory: ./staging}}
pipelines:
  - {id: up, source: {backend: http_upload}, destinations: [{id: web, backend: local, path: ./up}]}
`;
