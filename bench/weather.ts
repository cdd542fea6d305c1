/**
 * Compares the weather reader with the handwritten ones in `weather-rivals.mjs`, which use the same database
 * and return exactly the same responses. They take turns. Either many stations or a single one are requested.
 * The results are requests per second, and the processor time per request, which varies less. pgbench shows
 * what the database can do at best. Requires wrk (a Debian package), PostgreSQL with pgbench, which is
 * installed if possible, and `npm run build`.
 *
 * Environment: BENCH_SECONDS of each round (5), BENCH_ROUNDS (3), BENCH_ROWS, the number of observations for
 * measuring a read (10000000, skipped if not set), and BENCH_POLYGONS, the number of polygons for measuring
 * alerts (100000, skipped if not set).
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createTables } from '../src/weather/feed/tables/create-tables.ts';
import { lookUp } from '../src/weather/feed/tables/load-document.ts';
import { openServer } from '../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../src/weather/feed/tables/upsert.ts';
import { startPostgres } from '../test/services/postgres.ts';
import { goal } from './measure.ts';
import { fillAlerts, fillObservations, fillStations, stations } from './weather-data.ts';
import { load, type Measured, medianOf, requireWrk, printLoad } from './weather-load.ts';
import { besideALock } from './weather-lock.ts';
import { openServers, type Served, type Servers } from './weather-servers.ts';

const seconds = Number(process.env['BENCH_SECONDS'] ?? 5);
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3);
const manyRows = Number(process.env['BENCH_ROWS'] ?? 0);
const polygons = Number(process.env['BENCH_POLYGONS'] ?? 0);
const fewRows = 40_000;
const clients = 64;
const one = '/observations?station=K0007';
const anyStation = `request = function() return wrk.format('GET', string.format('/observations?station=K%04d', math.random(1, ${stations}))) end`;

/** Returns true if all goals were reached. */
export async function weather(): Promise<boolean> {
  requireWrk();
  const server = await startPostgres();
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-bench-'));
  const url = server.url('weather_reader');
  const servers = openServers(directory, url);
  const owner = await openServer(server.url());
  try {
    await createTables(owner);
    await owner.run("alter role weather_reader set log_statement = 'none'");
    // Adding ten million rows takes longer than the feeder normally allows.
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

/**
 * Servers that are compared take turns, so that anything else that the machine is doing affects both equally.
 */
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
  for (const [name, median] of medians) printLoad(names[name], median);
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

/**
 * Checks that all servers return the same responses. If not, one of them could be faster only because it does
 * less.
 */
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

/** Returns requests for observations by place or time. `atStart` is in the period that both tables have. */
function stationReads(atStart: Date): string[] {
  const [start, end] = [atStart, new Date(atStart.getTime() + 15 * 60_000)].map((at) => at.toISOString());
  return [
    one,
    '/observations?station=K0001,K0007,K1234',
    '/observations',
    '/observations?point=30.1,-98.8',
    '/observations?format=csv',
    `/observations/history?station=K0007&start=${start}&end=${end}`,
    '/current-conditions?station=K0007',
    '/current-conditions?point=30.1,-98.8',
    '/stations?near=30.1,-98.8&limit=5',
  ];
}

/** A weather reader and the processes of its database connections. */
interface Watched extends Served {
  databasePids: readonly number[];
}

async function watched(servers: Servers, owner: WritableDatabase): Promise<Watched> {
  const reader = await servers.reader('0s');
  // Send enough requests at the same time to open all connections.
  await Promise.all(
    Array.from({ length: clients }, (_, n) =>
      fetch(`${reader.url}/observations?station=K${String(n + 1).padStart(4, '0')}`).then((answer) =>
        answer.arrayBuffer(),
      ),
    ),
  );
  const rows = await lookUp(
    owner,
    "select pid from pg_stat_activity where application_name = 'waybill-weather' order by backend_start",
    [],
  );
  return { ...reader, databasePids: rows.map(({ pid }) => Number(pid)) };
}

async function amongManyRows(servers: Servers, owner: WritableDatabase): Promise<boolean> {
  const reader = await watched(servers, owner);
  const reads = stationReads(new Date(Date.now() - 20 * 60_000));
  const measure = (target: string): Measured =>
    medianOf(
      Array.from({ length: rounds }, () =>
        load({ ...reader, url: `${reader.url}${target}`, clients: 1, seconds }),
      ),
    );
  const few = reads.map(measure);
  await fillObservations(owner, manyRows - fewRows, fewRows);
  // The first time, pages have to be read from disk.
  reads.forEach(measure);
  const many = reads.map(measure);
  console.log(`\none client, cache: 0s, among ${fewRows} observations and among ${manyRows}`);
  const reached = reads.map((target, index) => {
    const [before, after] = [few[index], many[index]];
    if (before === undefined || after === undefined) throw new Error('not measured');
    console.log(`  ${target}`);
    printLoad(`among ${fewRows}`, before);
    printLoad(`among ${manyRows}`, after);
    // Compare the processor time, because what else the machine is doing may have changed in the meantime.
    const factor = costOf(after) / costOf(before);
    return goal(
      `processor time among ${manyRows} / among ${fewRows}: ${factor.toFixed(2)}, aim ≤ 1.5`,
      factor <= 1.5,
    );
  });
  return reached.every(Boolean);
}

/** Returns the processor time for a request, in both the reader and the database. */
function costOf({ cpuMicroseconds, databaseMicroseconds }: Measured): number {
  return cpuMicroseconds + databaseMicroseconds;
}

/** Compares alerts with many polygons and with few. There is no goal; this is for comparing versions. */
async function amongPolygons(servers: Servers, owner: WritableDatabase): Promise<void> {
  await amongAlerts(servers, owner, 100);
  await amongAlerts(servers, owner, polygons);
}

const alertReads = [
  '/alerts?limit=100',
  '/alerts?limit=1',
  '/alerts?point=40.78,-73.97',
  '/alerts?bbox=-74.3,40.4,-73.6,41',
  '/alerts?zone=NYZ072&limit=1',
  '/alerts?office=OKX',
  '/alerts/urn:bench:7',
];

async function amongAlerts(servers: Servers, owner: WritableDatabase, alerts: number): Promise<void> {
  await fillAlerts(owner, alerts);
  const reader = await watched(servers, owner);
  console.log(`\none client, ${alerts} alerts in force, each with a polygon, cache: 0s`);
  for (const target of alertReads) {
    const url = `${reader.url}${target}`;
    // The first request may take longer, because it builds an index.
    const started = performance.now();
    const answer = await fetch(url);
    await answer.arrayBuffer();
    const firstMs = Math.round(performance.now() - started);
    if (!answer.ok) {
      console.log(`  ${target.padEnd(44)} answers ${answer.status}`);
      continue;
    }
    printLoad(`${target}, the first ${firstMs} ms`, load({ ...reader, url, clients: 1, seconds }));
  }
}

function pgbench(port: number, directory: string): number {
  const file = path.join(directory, 'select.sql');
  writeFileSync(
    file,
    "select * from weather.observations where station_id = 'K0007' order by observed_at desc limit 1;\n",
  );
  const options = ['-n', '-M', 'prepared', '-c8', '-j1', `-T${seconds}`, '-f', file];
  const output = execFileSync(
    'pgbench',
    [...options, '-h', '127.0.0.1', '-p', String(port), '-U', 'weather_reader', 'postgres'],
    { encoding: 'utf8' },
  );
  return Number(/tps = ([\d.]+)/.exec(output)?.[1]);
}
