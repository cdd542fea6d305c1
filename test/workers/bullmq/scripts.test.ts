import { readdirSync } from 'node:fs';
import { Redis } from 'ioredis';
import t from 'tap';
import { defineScripts, scripts, scriptText } from '../../../src/workers/bullmq/scripts.ts';
import { startRedis } from '../../services/redis.ts';

t.test('the header of each script names the arguments that it is called with, in their order', async (t) => {
  for (const [name, { file, args }] of Object.entries(scripts)) {
    const text = scriptText(file);
    const header = [...text.matchAll(/^ {2}ARGV\[(\d+)\] {2}(\w+)/gm)].map(([, at, arg]) => [
      Number(at),
      arg,
    ]);
    t.same(
      header,
      args.map((arg, index) => [index + 2, arg]),
      name,
    );
  }
});

t.test('every file below scripts/ is one of them', async (t) => {
  const files = readdirSync('src/workers/bullmq/scripts', { recursive: true, encoding: 'utf8' });
  const known = Object.values(scripts).map(({ file }) => `${file}.lua`);
  t.same(files.filter((file) => file.endsWith('.lua')).sort(), [...known, 'shared.lua'].sort());
});

t.test('saves a record only with saveRecord, which notifies watchers', async (t) => {
  for (const file of [...Object.values(scripts).map((script) => script.file), 'shared']) {
    const saves = scriptText(file).match(/HSET'[^)]*'record'/g) ?? [];
    t.equal(saves.length, file === 'shared' ? 1 : 0, file);
  }
});

t.test('a script that Redis has lost is sent again', async (t) => {
  const redis = await startRedis();
  const connection = new Redis(redis.url);
  t.teardown(async () => {
    connection.disconnect();
    await redis.close();
  });
  const run = defineScripts(connection, 'waybill');
  const slot = { queueSize: 2, lifeMs: 60_000, key: '', rerunFailed: 0, pipeline: 'maps', maxWaiting: '' };
  t.equal(await run('reserve', { slot: 'a', ...slot }), 'ok');
  t.equal(await redis.cli('script', 'flush'), 'OK');
  t.equal(await run('reserve', { slot: 'b', ...slot }), 'ok');
  await redis.cli('script', 'flush');
  t.equal(await run('reserve', { slot: 'c', ...slot }), 'full');
  t.same(await Promise.all([run('depth', {}), run('find', {}, ['none'])]), [[2, 0, 0], ['']]);
});
