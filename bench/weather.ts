/**
 * The built weather reader beside what one would write instead (`weather-rivals.mjs`), over one database,
 * turn by turn: distinct stations against distinct stations and one against one, with answers that are the
 * same byte for byte, by requests and by the processor time of a request, which noise leaves alone. pgbench
 * says what the database gives at most. Needs wrk and pgbench, and `npm run build` before.
 *
 * Environment: BENCH_SECONDS of each turn (5), BENCH_ROUNDS (3), BENCH_ROWS for the cost of a read among so
 * many observations (10000000; else it is left out), BENCH_POLYGONS for that of alerts with so many polygons
 * (100000; else left out).
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTables } from '../src/core/weather/feed/tables/create-tables.ts';
import { openServer } from '../src/core/weather/feed/tables/open-server.ts';
import type { Target } from '../src/core/weather/feed/tables/target.ts';
import { startPostgres } from '../test/services/postgres.ts';
import { goal } from './measure.ts';
import { fillAlerts, fillObservations, fillStations, stations } from './weather-data.ts';
import { besideALock } from './weather-lock.ts';
import { load, medianOf, tell, type Measured } from './weather-load.ts';
import { openServers, type Served, type Servers } from './weather-servers.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const manyRows = Number(process.env['BENCH_ROWS'] ?? 0);
const polygons = Number(process.env['BENCH_POLYGONS'] ?? 0);
const fewRows = 10_000;
const clients = 64;
const one = '/observations?station=K0007';
const anyStation = `request = function() return wrk.format('GET', string.format('/observations?station=K%04d', math.random(1, ${stations}))) end`;

/** True where every aim was reached. */
export async function weather(): Promise<boolean> {
  const server = await startPostgres();
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-bench-'));
  const url = server.url('weather_reader');
  const servers = openServers(directory, url);
  const owner = await openServer(server.url());
  try {
    await createTables(owner);
    await owner.run("alter role weather_reader set log_statement = 'none'");
    // Ten million rows take longer than a statement of the feeder may.
    await owner.run('set statement_timeout = 0');
    await fillStations(owner);
    await fillObservations(owner, fewRows);
    const reached = await besideRivals(servers, directory);
    console.log(`\npgbench, the same SELECT, 8 clients: ${Math.round(pgbench(server.port, directory))}/s`);
    const reader = await servers.reader('0s');
    const script = path.join(directory, 'stations.lua');
    reached.push(await besideALock({ reader, ownerUrl: server.url(), directory, rounds, seconds, script }));
    if (manyRows > 0) reached.push(await amongManyRows(servers, owner));
    if (polygons > 0) await amongPolygons(servers, owner);
    return reached.every(Boolean);
  } finally {
    servers.close();
    await owner.close();
    await server.remove();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Each pair is measured in turn, so that what slows the machine slows both. */
async function besideRivals(servers: Servers, directory: string): Promise<boolean[]> {
  const uncached = await servers.reader('0s');
  const hot = await servers.reader('1s');
  const [express, http, map] = await Promise.all(
    (['express', 'http', 'map'] as const).map((kind) => servers.rival(kind)),
  );
  if (express === undefined || http === undefined || map === undefined) throw new Error('no rival');
  await mustAnswerAlike([uncached, hot, express, http, map]);

  const distinct = path.join(directory, 'stations.lua');
  writeFileSync(distinct, anyStation);
  console.log(`\n${clients} clients, any of ${stations} stations`);
  const any = inTurns({ uncached, express, http, hot, map }, distinct);
  console.log(`\n${clients} clients, one station`);
  const same = inTurns({ uncached, express, http, hot, map }, null);
  console.log('');
  return [
    ...ratios('uncached / Express, any station', any.uncached, any.express, 1),
    ...ratios('hot / Map in front of node:http, one station', same.hot, same.map, 0.8),
    goal(
      `p99 of hot reads at ${clients} clients: ${same.hot.p99Ms.toFixed(1)} ms, aim < 20`,
      same.hot.p99Ms < 20,
    ),
  ];
}

const names = {
  uncached: 'waybill-weather, cache: 0s',
  express: 'Express + postgres.js',
  http: 'node:http + postgres.js',
  hot: 'waybill-weather, cache: 1s',
  map: 'a Map in front of node:http + postgres.js',
};

function inTurns(
  served: Record<keyof typeof names, Served>,
  script: string | null,
): Record<keyof typeof names, Measured> {
  const contenders = Object.keys(names) as (keyof typeof names)[];
  const taken = Object.fromEntries(contenders.map((name) => [name, [] as Measured[]]));
  for (let round = 0; round <= rounds; round += 1)
    for (const name of contenders) {
      const { url, pid } = served[name];
      const measured = load({
        url: `${url}${one}`,
        pid,
        clients,
        seconds: round === 0 ? 2 : seconds,
        script,
      });
      if (round > 0) taken[name]?.push(measured);
    }
  const medians = contenders.map((name) => [name, medianOf(taken[name] ?? [])] as const);
  for (const [name, median] of medians) tell(names[name], median);
  return Object.fromEntries(medians) as Record<keyof typeof names, Measured>;
}

function ratios(what: string, ours: Measured, theirs: Measured, aim: number): boolean[] {
  const byRequests = ours.perSecond / theirs.perSecond;
  const byCpu = theirs.cpuMicroseconds / ours.cpuMicroseconds;
  return [
    goal(`${what}, by requests: ${byRequests.toFixed(2)}, aim ≥ ${aim}`, byRequests >= aim),
    goal(`${what}, by processor time: ${byCpu.toFixed(2)}, aim ≥ ${aim}`, byCpu >= aim),
  ];
}

/** Else one of them would be measured at less work. */
async function mustAnswerAlike(served: readonly Served[]): Promise<void> {
  for (const station of ['K0001', 'K0007', 'K1234', 'K2000']) {
    const bodies = await Promise.all(
      served.map(async ({ url }) => (await fetch(`${url}/observations?station=${station}`)).text()),
    );
    const [first, ...others] = bodies;
    for (const other of others)
      if (other !== first) throw new Error(`the answers for ${station} differ:\n${String(first)}\n${other}`);
  }
}

async function amongManyRows(servers: Servers, owner: Target): Promise<boolean> {
  const reader = await servers.reader('0s');
  const measure = (): Measured =>
    medianOf(
      Array.from({ length: rounds }, () =>
        load({ ...reader, url: `${reader.url}${one}`, clients: 1, seconds }),
      ),
    );
  const few = measure();
  await fillObservations(owner, manyRows - fewRows, fewRows);
  const many = measure();
  console.log(`\none client, one station, cache: 0s`);
  tell(`among ${fewRows} observations`, few);
  tell(`among ${manyRows} observations`, many);
  return goal(
    `latency among ${manyRows} / among ${fewRows}: ${(many.p50Ms / few.p50Ms).toFixed(2)}, aim ≤ 1.5`,
    many.p50Ms <= 1.5 * few.p50Ms,
  );
}

/** No aim: it is for comparing one version with another. */
async function amongPolygons(servers: Servers, owner: Target): Promise<void> {
  await fillAlerts(owner, polygons);
  const reader = await servers.reader('0s');
  console.log(`\none client, ${polygons} alerts in force, each with a polygon, cache: 0s`);
  for (const target of ['/alerts?limit=100', '/alerts?point=40.78,-73.97']) {
    const url = `${reader.url}${target}`;
    // The first read may build an index.
    const started = performance.now();
    const answer = await fetch(url);
    await answer.arrayBuffer();
    const firstMs = Math.round(performance.now() - started);
    if (!answer.ok) {
      console.log(`  ${target.padEnd(44)} answers ${answer.status}`);
      continue;
    }
    tell(`${target}, the first ${firstMs} ms`, load({ ...reader, url, clients: 1, seconds }));
  }
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
