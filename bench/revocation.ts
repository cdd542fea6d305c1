/**
 * How long requests outlive their token: the longest time from the reload that removes it to the refusal of
 * each kind of request, for each driver of the queue, with two API hosts on Redis. Environment: BENCH_ROUNDS
 * of each (20).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { accessToken } from '../test/api/publishers/exchange.ts';
import { bundle, launchApi } from '../test/hosts/processes.ts';
import {
  adminToken,
  endOf,
  hostEnv,
  type Kind,
  openRequests,
  type RevocableHost,
  revocableHost,
  waitingRun,
} from '../test/hosts/revocable.ts';
import { type Issuer, startIssuer } from '../test/services/issuer.ts';
import { startRedis } from '../test/services/redis.ts';

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 20);
const kinds = Object.keys(endOf) as Kind[];
const drivers = ['memory', 'embedded', 'bullmq'] as const;

type Longest = Record<Kind, number>;
interface Api extends RevocableHost {
  url: string;
}

/** Always true: the check is repeated twice a second, and a busy machine adds to it. */
export async function revocation(): Promise<boolean> {
  const rows: [string, Longest][] = [];
  for (const driver of drivers) rows.push([driver, await measured(driver)]);
  console.log(`\nlongest time from a reload to the refusal, in ms, of ${rounds} reloads\n`);
  const line = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`;
  console.log(line(['queue', ...kinds]));
  console.log(line(['---', ...kinds.map(() => '---:')]));
  for (const [driver, longest] of rows) console.log(line([driver, ...kinds.map((kind) => longest[kind])]));
  return true;
}

async function measured(driver: (typeof drivers)[number]): Promise<Longest> {
  const teardowns: (() => unknown)[] = [];
  const t = { teardown: (work: () => unknown) => void teardowns.unshift(work) };
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  try {
    const issuer = await startIssuer(t);
    const redis = driver === 'bullmq' ? await startRedis() : null;
    t.teardown(() => redis?.close());
    const env = { ...hostEnv, ...(redis === null ? {} : { REDIS: redis.url }) };
    const queues = {
      memory: '{driver: memory}',
      embedded: `{driver: embedded, directory: "${path.join(root, 'queue')}"}`,
      bullmq: '{driver: bullmq, redis_url_env: REDIS}',
    };
    const apis: Api[] = [];
    for (const name of redis === null ? ['one'] : ['one', 'other']) {
      const host = revocableHost(root, { name, issuer: issuer.url, queue: queues[driver] });
      const args = redis === null ? ['serve'] : ['serve', '--no-workers'];
      const place = { root, config: host.configFile, env, pipelines: ['site'] };
      apis.push({ ...host, url: (await launchApi(t, place, args)).url });
    }
    return await longestOf(apis, issuer);
  } finally {
    for (const work of teardowns) await work();
  }
}

async function longestOf(apis: readonly Api[], issuer: Issuer): Promise<Longest> {
  const [first] = apis as [Api];
  const token = await accessToken(first.url.slice(0, -1), await issuer.sign({ repository_id: '12345' }));
  const runId = await waitingRun(first.url, token, bundle('waiting'));
  const longest = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Longest;
  for (let round = 0; round < rounds; round += 1) {
    const opened = await Promise.all(apis.map(({ url }) => openRequests(url, { token, runId })));
    // At another moment of the interval in which a check is repeated.
    await new Promise((resolve) => setTimeout(resolve, (round * 500) / rounds));
    const begun = performance.now();
    const ends = opened.flatMap((requests) =>
      kinds.map(async (kind) => {
        const end = await requests[kind];
        if (end !== endOf[kind]) throw new Error(`${kind} ended with ${end}`);
        longest[kind] = Math.max(longest[kind], Math.round(performance.now() - begun));
      }),
    );
    await reload(apis, true);
    await Promise.all(ends);
    await reload(apis, false);
  }
  return longest;
}

async function reload(apis: readonly Api[], isRevoked: boolean): Promise<void> {
  for (const api of apis) api.write(isRevoked);
  const headers = { authorization: `Bearer ${adminToken}` };
  const answers = await Promise.all(
    apis.map(({ url }) => fetch(`${url}v1/reload`, { method: 'POST', headers })),
  );
  for (const { status } of answers) if (status !== 200) throw new Error(`the reload was answered ${status}`);
}
