/**
 * The weather reader beside a bare Express 5 + postgres.js handler that does one SELECT, and pgbench for what
 * the database gives at most. Needs wrk and pgbench. Environment: BENCH_SECONDS of each turn (5), BENCH_ROWS
 * of the large table (10000000).
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTables, openServer } from '../examples/feeder/targets.ts';
import { startPostgres } from '../test/services/postgres.ts';

interface Measured {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
}

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const manyRows = Number(process.env['BENCH_ROWS'] ?? 10_000_000);
const fewRows = 10_000;
const stations = 2000;
const rounds = 3;
const connections = 64;
const anyStation = `request = function() return wrk.format('GET', string.format('/observations?station=K%04d', math.random(1, ${stations}))) end`;

/** True where every aim was reached. */
export async function weather(): Promise<boolean> {
  const server = await startPostgres();
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-bench-'));
  const children: ChildProcess[] = [];
  try {
    const owner = await openServer(server.url());
    await createTables(owner);
    await owner.run(
      `alter role weather_reader set log_statement = 'none';
       insert into stations select 'K' || lpad(n::text, 4, '0'), 'Station ' || n, 40, -74, 10, 'America/New_York' from generate_series(1, ${stations}) n;`,
    );
    await fill((statement) => owner.run(statement), fewRows);
    const url = server.url('weather_reader');
    const bare = await serve(children, (port) => ['bench/weather-bare.ts', String(port), url]);
    const reader = (cache: string) =>
      serve(children, (port) => ['src/cli/weather.ts', '-config', configOf(directory, port, cache)], {
        WEATHER_URL: url,
      });
    const uncached = await reader('0s');
    const hot = await reader('1s');

    // Reads that differ, for identical ones that are under way share one query.
    const script = path.join(directory, 'stations.lua');
    writeFileSync(script, anyStation);
    const turns = { bare, uncached, hot };
    const results: Record<keyof typeof turns, Measured[]> = { bare: [], uncached: [], hot: [] };
    for (let round = 0; round <= rounds; round += 1)
      for (const name of ['bare', 'uncached', 'hot'] as const) {
        const measured = wrk(
          turns[name],
          connections,
          round === 0 ? 2 : seconds,
          name === 'hot' ? null : script,
        );
        if (round > 0) results[name].push(measured);
      }
    const limit = pgbench(server.port, directory);
    const few = medianOf(Array.from({ length: rounds }, () => wrk(uncached, 1, seconds)));
    await fill((statement) => owner.run(statement), manyRows - fewRows, fewRows);
    const many = medianOf(Array.from({ length: rounds }, () => wrk(uncached, 1, seconds)));
    await owner.close();

    const [bareMedian, uncachedMedian, hotMedian] = [
      medianOf(results.bare),
      medianOf(results.uncached),
      medianOf(results.hot),
    ];
    tell('bare Express + postgres.js', bareMedian);
    tell('waybill-weather, cache: 0s', uncachedMedian);
    tell('waybill-weather, cache: 1s', hotMedian);
    console.log(`pgbench, the same SELECT, 8 clients: ${Math.round(limit)}/s`);
    const aims: [string, number][] = [
      ['uncached / bare, aim ≥ 0.8', uncachedMedian.perSecond / bareMedian.perSecond],
      ['hot / bare, aim ≥ 5', hotMedian.perSecond / bareMedian.perSecond],
      ['hot p99 ms, aim < 20', hotMedian.p99Ms],
      [`latency at ${manyRows} rows / at ${fewRows}, aim ≤ 1.5`, many.p50Ms / few.p50Ms],
    ];
    const reached = [
      uncachedMedian.perSecond >= 0.8 * bareMedian.perSecond,
      hotMedian.perSecond >= 5 * bareMedian.perSecond,
      hotMedian.p99Ms < 20,
      many.p50Ms <= 1.5 * few.p50Ms,
    ];
    aims.forEach(([name, value], index) =>
      console.log(`${reached[index] === true ? 'reached' : 'MISSED '}  ${name}: ${value.toFixed(2)}`),
    );
    return reached.every(Boolean);
  } finally {
    for (const child of children) child.kill();
    await server.remove();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Observations of all stations in turn, five minutes apart, from the `from`th on. */
async function fill(run: (text: string) => Promise<void>, rows: number, from = 0): Promise<void> {
  await run(`insert into observations (station_id, observed_at, received_at, temperature_c, dewpoint_c, wind_speed_kmh, qc)
    select 'K' || lpad((1 + n % ${stations})::text, 4, '0'), '2020-01-01Z'::timestamptz + make_interval(mins => 5 * (n / ${stations})), now(), 20, 10, 15, '{}'
    from generate_series(${from}, ${from + rows - 1}) n; analyze observations;`);
}

function configOf(directory: string, port: number, cache: string): string {
  const file = path.join(directory, `${port}.yml`);
  writeFileSync(
    file,
    `server: { http: { listen: "127.0.0.1:${port}" } }
databases: [{ name: bench, driver: postgres, url_env: WEATHER_URL, pool_size: 8 }]
weather: { cache: ${cache} }
`,
  );
  return file;
}

/** Starts a server and returns its URL when it answers. */
async function serve(
  children: ChildProcess[],
  command: (port: number) => string[],
  env: Record<string, string> = {},
): Promise<string> {
  const port = await freePort();
  const child = spawn(process.execPath, ['--import=tsx', ...command(port)], {
    env: { ...process.env, ...env },
    stdio: 'ignore',
  });
  children.push(child);
  const url = `http://127.0.0.1:${port}/observations?station=K0007`;
  while (child.exitCode === null) {
    const answer = await fetch(url).catch(() => null);
    if (answer?.ok === true) return url;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`${command(port).join(' ')} ended with ${child.exitCode}`);
}

function wrk(url: string, clients: number, duration: number, script: string | null = null): Measured {
  const options = [
    '-t1',
    `-c${clients}`,
    `-d${duration}s`,
    '--latency',
    ...(script === null ? [] : ['-s', script]),
  ];
  const told = execFileSync('wrk', [...options, url], { encoding: 'utf8' });
  if (/Non-2xx|Socket errors/.test(told)) throw new Error(told);
  const milliseconds = (percent: string): number => {
    const [, value = 'NaN', unit = ''] = new RegExp(`${percent}%\\s+([\\d.]+)(us|ms|s)`).exec(told) ?? [];
    return Number(value) * ({ us: 0.001, ms: 1, s: 1000 }[unit] ?? NaN);
  };
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(told)?.[1]),
    p50Ms: milliseconds('50'),
    p99Ms: milliseconds('99'),
  };
}

function pgbench(port: number, directory: string): number {
  const file = path.join(directory, 'select.sql');
  writeFileSync(
    file,
    "select * from weather.observations where station_id = 'K0007' order by observed_at desc limit 1;\n",
  );
  const options = ['-n', '-M', 'prepared', '-c8', '-j1', `-T${seconds}`, '-f', file];
  const told = execFileSync(
    'pgbench',
    [...options, '-h', '127.0.0.1', '-p', String(port), '-U', 'weather_reader', 'postgres'],
    { encoding: 'utf8' },
  );
  return Number(/tps = ([\d.]+)/.exec(told)?.[1]);
}

function medianOf(measured: readonly Measured[]): Measured {
  const middle = (of: (one: Measured) => number): number =>
    measured.map(of).sort((a, b) => a - b)[Math.floor(measured.length / 2)] ?? NaN;
  return {
    perSecond: middle((one) => one.perSecond),
    p50Ms: middle((one) => one.p50Ms),
    p99Ms: middle((one) => one.p99Ms),
  };
}

function tell(name: string, { perSecond, p50Ms, p99Ms }: Measured): void {
  console.log(
    `${name.padEnd(28)} ${Math.round(perSecond)}/s  p50 ${p50Ms.toFixed(2)} ms  p99 ${p99Ms.toFixed(2)} ms`,
  );
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
