import path from 'node:path';
import t from 'tap';
import { serve } from '../../src/cli/daemon/serve.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import { accessToken, exchange } from '../api/publishers/exchange.ts';
import { startIssuer } from '../services/issuer.ts';
import { startRedis } from '../services/redis.ts';
import { bundle } from './processes.ts';
import { endOf, hostEnv, openRequests, revocableHost, waitingRun } from './revocable.ts';

/** `npm run bench -- revocation` measures how long each request takes to end. */

const claims = { repository_id: '12345' };

for (const driver of ['memory', 'embedded', 'bullmq'] as const)
  t.test(`a reload ends every request of a removed token, on all hosts (${driver})`, async (t) => {
    const issuer = await startIssuer(t);
    const root = t.testdir({});
    const env: Record<string, string> = { ...hostEnv, HOME: root };
    if (driver === 'bullmq') {
      const redis = await startRedis();
      t.teardown(() => redis.close());
      env['REDIS'] = redis.url;
    }
    const queues = {
      memory: '{driver: memory}',
      embedded: `{driver: embedded, directory: "${path.join(root, 'queue')}"}`,
      bullmq: '{driver: bullmq, redis_url_env: REDIS}',
    };
    const names = driver === 'bullmq' ? ['one', 'other'] : ['one'];
    const hosts = names.map((name) =>
      revocableHost(root, { name, issuer: issuer.url, queue: queues[driver] }),
    );
    const served = await Promise.all(
      hosts.map(({ configFile }) => serve({ configFile, env, log: silentLog, workers: driver !== 'bullmq' })),
    );
    t.teardown(() => Promise.all(served.map((one) => one.close())));
    const [first = ''] = served.map(({ url }) => url);
    const origins = served.map(({ url }) => url.slice(0, -1));
    const token = await accessToken(origins[0] ?? '', await issuer.sign(claims));
    const runId = await waitingRun(first, token, bundle('waiting'));
    const opened = await Promise.all(served.map(({ url }) => openRequests(url, { token, runId })));

    for (const host of hosts) host.write(true);
    await Promise.all(served.map((one) => one.reload()));
    for (const [index, requests] of opened.entries())
      for (const [kind, end] of Object.entries(endOf))
        t.equal(await requests[kind as keyof typeof endOf], end, `${kind} at ${names[index] ?? ''}`);
    for (const origin of origins) {
      const headers = { authorization: `Bearer ${token}` };
      t.equal((await fetch(`${origin}/runs/${runId}`, { headers })).status, 401);
      t.match(await exchange(origin, await issuer.sign(claims)), { body: { code: 'id_token_refused' } });
    }
    for (const host of hosts) host.write(false);
    await Promise.all(served.map((one) => one.reload()));
    for (const origin of origins) {
      const headers = { authorization: `Bearer ${token}` };
      t.equal((await fetch(`${origin}/runs/${runId}`, { headers })).status, 200, 'the rules are back');
    }
  });
