import { readdirSync } from 'node:fs';
import { Redis } from 'ioredis';
import t from 'tap';
import { defineScripts, scripts, scriptText } from '../../../src/workers/bullmq/scripts.ts';
import { startRedis } from '../../services/redis.ts';

t.test('the header of each script names its arguments in their order', async (t) => {
  for (const [name, args] of Object.entries(scripts)) {
    const text = scriptText(name);
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

t.test('every file below scripts/ is a defined script', async (t) => {
  const files = readdirSync('src/workers/bullmq/scripts', { recursive: true, encoding: 'utf8' });
  const known = Object.keys(scripts).map((name) => `${name}.lua`);
  t.same(files.filter((file) => file.endsWith('.lua')).sort(), [...known, 'shared.lua'].sort());
});

t.test('saves a record only with saveRecord, which gives the change a revision', async (t) => {
  for (const file of [...Object.keys(scripts), 'shared']) {
    const saves = scriptText(file).match(/HSET'[^)]*'record'/g) ?? [];
    t.equal(saves.length, file === 'shared' ? 1 : 0, file);
  }
});

t.test('sends a script again that Redis has lost', async (t) => {
  const redis = await startRedis();
  const connection = new Redis(redis.url);
  t.teardown(async () => {
    connection.disconnect();
    await redis.close();
  });
  const run = defineScripts(connection, 'waybill');
  const slot = { queueSize: 2, lifeMs: 60_000, key: '', rerunFailed: 0, pipeline: 'maps', maxWaiting: '' };
  t.equal(await run('admission/reserve', { slot: 'a', ...slot }), 'ok');
  t.equal(await redis.cli('script', 'flush'), 'OK');
  t.equal(await run('admission/reserve', { slot: 'b', ...slot }), 'ok');
  await redis.cli('script', 'flush');
  t.equal(await run('admission/reserve', { slot: 'c', ...slot }), 'full');
  t.same(await Promise.all([run('runs/depth', {}), run('runs/find', {}, ['none'])]), [[2, 0, 0], ['']]);
});

t.test('a reservation with a lost response can be repeated, but no other upload gets its key', async (t) => {
  const redis = await startRedis();
  const connection = new Redis(redis.url);
  t.teardown(async () => {
    connection.disconnect();
    await redis.close();
  });
  const run = defineScripts(connection, 'waybill');
  const slot = { queueSize: 3, lifeMs: 60_000, key: 'k', rerunFailed: 0, pipeline: 'maps', maxWaiting: '' };
  t.equal(await run('admission/reserve', { slot: 'a', ...slot }), 'ok');
  t.equal(await run('admission/reserve', { slot: 'a', ...slot }), 'ok');
  t.equal(await run('admission/reserve', { slot: 'b', ...slot }), 'busy');
  t.same(await run('runs/depth', {}), [1, 0, 0]);
});

t.test('a Redis clock that was a year ahead extends no slot and no run of a dead process', async (t) => {
  const redis = await startRedis();
  const connection = new Redis(redis.url);
  t.teardown(async () => {
    connection.disconnect();
    await redis.close();
  });
  const run = defineScripts(connection, 'waybill');
  const year = 365 * 86_400_000;
  const slot = { lifeMs: 60_000, key: '', rerunFailed: 0, pipeline: 'maps' };
  const limits = { queueSize: 1, maxWaiting: 1 };
  t.equal(await run('admission/reserve', { slot: 'dead', ...slot, ...limits }), 'ok');
  t.equal(await run('admission/reserve', { slot: 'b', ...slot, ...limits }), 'full');
  for (const set of ['slots', 'slots:maps']) await connection.zincrby(`waybill:${set}`, year, 'dead');
  t.equal(await run('admission/reserve', { slot: 'b', ...slot, ...limits }), 'ok');

  const content = { digest: 'd', job: '{}', record: '{}', staged: '', unconfirmedMs: 0 };
  await run('admission/accept', { slot: 'b', ...slot, ...content, runId: 'maps.1' });
  await run('runs/take', { runId: 'maps.1', owner: 'dead', at: '', pipeline: 'maps' });
  await run('runs/hold', { runId: 'maps.1', owner: 'dead', holdMs: 60_000 });
  const take = async (): Promise<unknown> =>
    run('runs/take', { runId: 'maps.1', owner: 'next', at: '', pipeline: 'maps' });
  t.same(await take(), ['held']);
  await connection.hincrby('waybill:run:maps.1', 'held', year);
  t.match(await take(), ['taken']);
});
