import { existsSync, readFileSync } from 'node:fs';
import t from 'tap';
import { Api, tokens, uploads } from './daemon.ts';
import { pipeline, waybill, web, World } from './harness.ts';

/** Secrets, tokens, settings and events. `bundle-servers.test.ts` has the rest of "Authentication". */

const secrets = 'secrets: {directory: ./secrets}';
const s3 = (more: string): string =>
  `id: cdn, backend: s3, endpoint: "http://127.0.0.1:9", bucket: b${more === '' ? '' : `, ${more}`}`;
const explicit = 'access_key_id_env: MAPS_KEY, secret_access_key_env: MAPS_SECRET';

t.test('secrets.directory', async (t) => {
  const spoilt: Record<string, (world: World) => void> = {
    missing: () => undefined,
    unreadable: (world) => world.write('secrets', 'a file, no directory'),
    'an invalid secret filename': (world) => world.write('secrets/not a name', 'x'),
  };
  const commands = [
    ['run', '-c', 'c.yml'],
    ['serve', '-c', 'c.yml'],
    ['validate', '-c', 'c.yml', '-p', 'maps'],
    ['inspect', '-c', 'c.yml', '-p', 'maps'],
  ];

  t.test(
    '`secrets.directory` is loaded during `run`, `serve`, and configured-source `validate` or `inspect`, before credential-consuming work.',
    async (t) => {
      const world = new World(t, pipeline([s3(explicit)], secrets));
      world.bundle('one', { 'a.txt': 'a' });
      for (const command of commands)
        t.match(await world.cli(...command), { status: 2, stderr: /secrets/ }, command.join(' '));
    },
  );

  t.test(
    'If it is missing, unreadable or holds an invalid secret filename, the command fails before storage work.',
    async (t) => {
      for (const [what, spoil] of Object.entries(spoilt)) {
        const world = new World(t, pipeline([web], secrets));
        world.bundle('one', { 'a.txt': 'a' });
        spoil(world);
        t.equal((await world.run()).status, 2, what);
        t.notOk(existsSync(world.at('web')), `${what}: nothing is published`);
      }
    },
  );

  t.test('secrets.directory · Directory of secret files.', async (t) => {
    const world = new World(t, pipeline([s3(explicit)], secrets));
    world.write('secrets/MAPS_KEY', 'key');
    t.match(await world.run(), { status: 2, stderr: /MAPS_SECRET/ });
    world.write('secrets/MAPS_SECRET', 'secret');
    t.equal((await world.cli('config', 'check', '-c', 'c.yml')).status, 0);
    t.match(await world.run(), { stderr: /^(?!.*MAPS_)/s });
  });
});

t.test('precedence', async (t) => {
  const world = new World(t, pipeline([web, s3(explicit)], secrets));
  world.write('secrets/MAPS_KEY', 'value-of-the-file');
  world.write('secrets/MAPS_SECRET', 'secret');
  world.bundle('one', { 'a.txt': 'a' });
  const env = { MAPS_KEY: 'value-of-the-environment' };
  const ended = await waybill(world.root, ['run', '-c', 'c.yml', '-d', 'web'], env);

  t.test('A real environment value takes precedence over a file of the same name.', async (t) => {
    t.match(ended, { status: 0, stderr: /MAPS_KEY/ });
    world.write('secrets/MAPS_SECRET', '');
    const fromEnvironment = await waybill(world.root, ['run', '-c', 'c.yml', '-d', 'web'], {
      ...env,
      MAPS_SECRET: 'value',
    });
    t.equal(fromEnvironment.status, 0, 'an empty file does not hide the environment');
  });

  t.test(
    'When they differ and stdout is enabled, a warning names the ignored variable without printing either value.',
    async (t) => {
      t.match(ended.stderr, /warning.*MAPS_KEY/);
      t.notMatch(ended.stdout + ended.stderr, /value-of-the/);
      world.write('secrets/MAPS_KEY', 'value-of-the-environment');
      const same = await waybill(world.root, ['run', '-c', 'c.yml', '-d', 'web'], {
        ...env,
        MAPS_SECRET: 'x',
      });
      t.notMatch(same.stderr, /warning.*MAPS_KEY/, 'no warning if they are equal');
    },
  );
});

t.test('settings', async (t) => {
  const check = async (destination: string): Promise<number | null> => {
    const world = new World(t, pipeline([destination]));
    return (await world.cli('config', 'check', '-c', 'c.yml')).status;
  };

  t.test('workflow (per destination) · `additive` (default) or `replacement`.', async (t) => {
    for (const [setting, status] of [
      ['additive', 0],
      ['replacement', 0],
      ['other', 2],
    ] as const)
      t.equal(await check(`${web}, workflow: ${setting}`), status, setting);
    const world = new World(t, pipeline([web]));
    world.bundle('one', { 'a.txt': 'a' });
    await world.run();
    world.bundle('one', { 'a.txt': 'newer' }, '2026-11-21T00:00:00Z');
    t.same(await world.actions(), ['upsert_additive'], 'the default');
  });

  const sftp = 'id: web, backend: sftp, host: 127.0.0.1, user: x, path: /x, ssh_key_file: ./key';

  t.test('host_key_policy · `strict`, `accept-new` (default), or `off`.', async (t) => {
    for (const policy of ['strict', 'accept-new', 'off', 'other'])
      t.equal(await check(`${sftp}, host_key_policy: ${policy}`), policy === 'other' ? 2 : 0, policy);
  });

  t.test('YAML password authentication is unsupported.', async (t) => {
    t.equal(await check(`${sftp}, password: x`), 2);
  });

  t.test(
    'endpoint, bucket, prefix, region, path-style · S3-compatible storage settings; region, prefix and path-style are optional.',
    async (t) => {
      t.equal(await check(s3('prefix: p, region: r, path_style: false')), 0);
      t.equal(await check(s3('')), 0);
      t.equal(
        await check('id: cdn, backend: s3, endpoint: "http://127.0.0.1:9"'),
        2,
        'the bucket is required',
      );
    },
  );

  t.test('explicit S3 credential variable names · Optional pair of variable names.', async (t) => {
    const world = new World(t, pipeline([s3(explicit)]));
    world.bundle('one', { 'a.txt': 'a' });
    t.match(await world.run(), { status: 2, stderr: /MAPS_KEY/ });
    t.equal(await check(s3('access_key_id_env: MAPS_KEY')), 2, 'only one of the two');
    t.equal(await check(s3('')), 0);
  });
});

t.test(
  'A notifier emits events after publication; none are emitted in `--dry-run` or on `skip_same`.',
  async (t) => {
    const world = new World(
      t,
      pipeline([web], 'notifiers: [{id: journal, kind: file, path: ./events.jsonl}]'),
    );
    world.bundle('one', { 'a.txt': 'a' });
    await world.run('--dry-run');
    t.notOk(existsSync(world.at('events.jsonl')));
    await world.run();
    const events = readFileSync(world.at('events.jsonl'), 'utf8');
    t.match(JSON.parse(events), { type: 'bundle.published' });
    t.same(await world.actions(), ['skip_same']);
    t.equal(readFileSync(world.at('events.jsonl'), 'utf8'), events);
  },
);

t.test('tokens', async (t) => {
  const world = new World(t, secrets + uploads('queue_size: 20'));
  world.write('secrets/TOKEN_CI', tokens.TOKEN_CI);
  const api = await Api.start(t, world, { TOKEN_SECOND: tokens.TOKEN_SECOND });

  t.test('Upload requests carry `Authorization: Bearer <UPLOAD_TOKEN>`.', async (t) => {
    t.ok((await api.upload()).ok);
    for (const token of [null, 'not-a-token-of-any-producer']) t.notOk((await api.upload({ token })).ok);
  });

  t.test(
    'A token is defined in top-level `upload_tokens` and allows one or more upload pipelines.',
    async (t) => {
      const own = { token: tokens.TOKEN_SECOND };
      t.ok((await api.upload(own)).ok, 'the only pipeline of the second token');
      t.notOk((await api.upload({ ...own, pipeline: 'other' })).ok, 'and no others');
      for (const pipeline of ['up', 'other']) {
        const { run_id } = await api.accepted({ pipeline });
        t.match(await api.until(run_id, 'succeeded', 'failed', null), 'succeeded');
      }
    },
  );

  t.test(
    'upload_tokens (top level) · Producer tokens; each has an id and allows one or more upload pipelines. Values come from the environment or the secrets directory, never YAML literals.',
    async (t) => {
      const literal = uploads('').replace('value_env: TOKEN_CI', 'value: a-token-of-all-producers');
      api.world.write('literal.yml', literal);
      const refused = await api.world.cli('config', 'check', '-c', 'literal.yml');
      t.match(refused, { status: 2, stderr: /secrets are not allowed in the configuration/ });
      api.world.write('nameless.yml', uploads('').replace('id: ci, ', ''));
      t.match(await api.world.cli('config', 'check', '-c', 'nameless.yml'), { status: 2, stderr: /\bid\b/ });
      for (const one of [{}, { token: tokens.TOKEN_SECOND }]) t.ok((await api.upload(one)).ok);
    },
  );

  t.test('Token values come from the process environment or `secrets.directory`.', async (t) => {
    t.ok((await api.upload()).ok, 'from a file');
    t.ok((await api.upload({ token: tokens.TOKEN_SECOND })).ok, 'from the environment');
  });
});
