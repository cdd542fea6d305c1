import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openDirectory } from '../../../../src/weather/feed/tables/open-directory.ts';
import { openServer } from '../../../../src/weather/feed/tables/open-server.ts';
import type { WritableDatabase } from '../../../../src/weather/feed/tables/upsert.ts';
import { startPostgres } from '../../../services/postgres.ts';
import { generator, howMany, isExhaustive, share } from '../../../support/sampling.ts';
import { dayOfChanges, nwsYaml, officeTable, paths } from '../../../weather/feed/day.ts';
import { dump } from '../../../weather/feed/dump.ts';
import { type Moment, type NwsServer, refusing, startNws } from '../../../weather/feed/nws-server.ts';
import { emptied, feedDay } from '../../../weather/feed/suite.ts';
import { document, program, waybill } from '../../process.ts';

const server = await startPostgres();
t.teardown(() => server.remove());
const env = { FEED_URL: server.url(), READER_URL: server.url('weather_reader') };
const onServer = 'databases: [{ name: main, driver: postgres, url_env: READER_URL }]\n';
const samples = path.resolve('test/fixtures/weather');

/** A configuration that feeds the server, with more settings of `weather.feed`. */
function configured(more = ''): string {
  return `${onServer}weather: { feed: { url_env: FEED_URL${more === '' ? '' : `, ${more}`} } }\n`;
}

interface Running {
  child: ChildProcess;
  /** Lines of stdout and stderr so far. */
  output: () => string;
  /** Resolves to the whole output once it matches. */
  until: (pattern: RegExp) => Promise<string>;
  ended: Promise<{ status: number | null; signal: NodeJS.Signals | null }>;
}

function start(cwd: string, args: readonly string[]): Running {
  const child = spawn(process.execPath, [program, 'weather', 'feed', ...args], {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const waiting = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      for (const look of waiting) look();
    });
  const ended = once(child, 'close').then(() => ({ status: child.exitCode, signal: child.signalCode }));
  const until = (pattern: RegExp): Promise<string> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        if (!pattern.test(output)) return;
        waiting.delete(look);
        resolve(output);
      };
      waiting.add(look);
      look();
      void ended.then(() => reject(new Error(`it ended with the output:\n${output}`)));
    });
  return { child, output: () => output, until, ended };
}

async function withServer<T>(work: (target: WritableDatabase) => Promise<T>): Promise<T> {
  const target = await openServer(server.url());
  try {
    return await work(target);
  } finally {
    await target.close();
  }
}

const dropTables = (): Promise<void> =>
  withServer((target) => target.run('drop schema if exists weather cascade'));

t.test('files and directories are loaded once, and tables are created on request', async (t) => {
  const cwd = t.testdir({ 'config.yml': configured() });
  const feed = (...args: string[]): ReturnType<typeof waybill> =>
    waybill(['weather', 'feed', ...args], { cwd, env });
  await t.test('without tables, it reports the fix', (t) => {
    const { status, stderr } = feed(samples);
    t.equal(status, 1);
    t.match(
      stderr,
      /error {2}the database "main" has no weather tables in "weather"\nnext {3}add --create-tables/,
    );
    t.end();
  });
  await t.test('loads files and creates the tables', (t) => {
    const { status, stdout, stderr } = feed('--create-tables', samples);
    t.equal(status, 0, stderr);
    t.match(stdout, /^loaded {5}\S+\/observations\/KNYC_latest_20260120\.json {2}observation$/m);
    t.match(stdout, /^skipped {4}\S+\/nws_problem_404_20260120\.json {2}it is an error of the source$/m);
    t.match(stdout, /^39 loaded, 0 unchanged, 10 skipped, 0 failed$/m);
    t.end();
  });
  await t.test('loads nothing new the second time', (t) => {
    const ended = feed('--format', 'json', samples);
    t.equal(ended.status, 0, ended.stderr);
    t.match(document(t, ended), { kind: 'weather-feed', loaded: 0, unchanged: 39, skipped: 10, failed: 0 });
    t.end();
  });
  await t.test('one invalid document does not stop the others', (t) => {
    const sample = readFileSync(path.join(samples, 'alerts/active_20251215_mixed13.json'), 'utf8');
    const place = t.testdir({
      'bad.json': '{"features": [',
      'half.json': sample.replace('"severity": "Severe"', '"severity": "Worst"'),
      'latin.txt': Buffer.from([0xe9, 0xff]),
      '.hidden.json': '{',
      good: { 'KBHM.json': readFileSync(path.join(samples, 'observations/KBHM_20240220.json')) },
    });
    const ended = feed('--format', 'json', place);
    t.equal(ended.status, 1);
    t.match(document(t, ended), {
      loaded: 0,
      unchanged: 2,
      failed: 2,
      left_out: 1,
      documents: [
        { place: /bad\.json$/, outcome: 'failed', reason: /^it is not JSON: / },
        { place: /KBHM\.json$/, outcome: 'unchanged', families: ['observation'] },
        { place: /half\.json$/, left_out: [/^features\[\d+\]: severity is "Worst", expected one of /] },
        { place: /latin\.txt$/, outcome: 'failed', reason: 'it is not UTF-8' },
      ],
    });
    t.end();
  });
  await t.test('reports a role without write permission', (t) => {
    const readOnly = t.testdir({ 'config.yml': onServer });
    const { status, stderr } = waybill(['weather', 'feed', samples], { cwd: readOnly, env });
    t.equal(status, 1);
    t.match(stderr, /^next {3}let the role of weather\.feed\.url_env write to the weather tables/m);
    t.end();
  });
});

t.test('standard input is a document with the given name', (t) => {
  const cwd = t.testdir({ 'config.yml': configured() });
  const { status, stdout } = waybill(
    ['weather', 'feed', '-config', 'config.yml', '--create-tables', '--name', 'OKX_33_35_x.json', '-'],
    {
      cwd,
      env,
      input: readFileSync(path.join(samples, 'forecast_narrative/OKX_33_35_forecast_20260120.json')),
    },
  );
  t.equal(status, 0);
  t.match(stdout, /^(loaded|unchanged) +standard input {2}forecast$/m);
  t.end();
});

t.test('a wrong command line or configuration is exit code 2', (t) => {
  const cwd = t.testdir({
    'config.yml': configured(),
    'unknown.yml': `${onServer}weather: { feed: { database: mian } }\n`,
    'nobody.yml': configured('nws: { user_agent: me }'),
    'none.yml': 'pipelines: []\n',
  });
  const cases: [string[], RegExp][] = [
    [[], /there are no files and no sources to load/],
    [['--interval', '1m', samples], /--interval cannot be combined with --once or with files/],
    [['--interval', 'soon'], /--interval is "soon", which is not an interval/],
    [['-c', 'unknown.yml', samples], /there is no database named "mian"\nnext {3}did you mean "main"\?/],
    [['-c', 'none.yml', samples], /the configuration has no weather database/],
    [['-c', 'nobody.yml', '--once'], /weather\.feed\.nws\.user_agent: .*whom to write to/],
    [['--onec'], /unknown option/],
  ];
  for (const [args, reason] of cases) {
    const { status, stderr } = waybill(['weather', 'feed', ...args], { cwd, env });
    t.equal(status, 2, args.join(' '));
    t.match(stderr, reason);
  }
  t.end();
});

t.test('watches a directory, and loads a file once it is stable', async (t) => {
  const cwd = t.testdir({ 'config.yml': configured('watch: { directory: ./in, settle: 200ms }'), in: {} });
  await dropTables();
  const file = (name: string): string => path.join(cwd, 'in', name);
  cpSync(path.join(samples, 'observations/KBHM_20240220.json'), file('first.json'));
  const running = start(cwd, ['-c', 'config.yml', '--create-tables']);
  await running.until(/loaded +\S+first\.json/);
  mkdirSync(file('below'));
  cpSync(path.join(samples, 'observations/KMSP_20240112_cold.json'), file('.second.part'));
  renameSync(file('.second.part'), file('below/second.json'));
  await running.until(/loaded +\S+second\.json/);
  // Written in one step: a file written in two halves may count as stable after the first half on a busy
  // machine.
  writeFileSync(file('.first.part'), '{');
  renameSync(file('.first.part'), file('first.json'));
  await running.until(/failed +\S+first\.json +it is not JSON/);
  for (const other of ['SIGUSR2', 'SIGHUP'] as const) running.child.kill(other);
  await running.until(/SIGHUP: the configuration is not read again/);
  running.child.kill('SIGTERM');
  t.match(await running.ended, { status: 0 });
  t.match(running.output(), /^2 loaded, 0 unchanged, 0 skipped, 1 failed$/m);
});

t.test('polls the service, also after an outage of the database', async (t) => {
  const moments = dayOfChanges();
  const nws = await startNws(moments[0]!);
  t.teardown(() => nws.close());
  await dropTables();
  const cwd = t.testdir({ 'config.yml': configured(`nws: ${nwsYaml(nws.url)}`) });
  const running = start(cwd, ['-c', 'config.yml', '--create-tables', '--interval', '1s']);
  await running.until(/loaded +\S+\/alerts\/active/);
  await server.stop();
  await running.until(/feeding failed; trying again in 1 s/);
  await server.start();
  nws.show(moments[1]!);
  await running.until(/loaded +\S+\/alerts\/active[^]*loaded +\S+\/alerts\/active/);
  running.child.kill('SIGINT');
  t.match(await running.ended, { status: 0 });
  t.ok(nws.asked.every(({ headers }) => headers['user-agent'] === 'waybill tests (ops@example.org)'));
});

interface Day {
  nws: NwsServer;
  moments: readonly Moment[];
}

/**
 * Kills a feeder while it works, then lets another one finish, over a whole day. After the first moment, a
 * table provides the location of an office, which the feeder requests from then on.
 *
 * @param config The configuration with these offices.
 */
async function killedDay(
  t: Test,
  { nws, moments }: Day,
  { cwd, config }: { cwd: string; config: (offices: readonly string[]) => string },
  kills: number,
): Promise<void> {
  const random = generator('kills of the feeder');
  const places = new Map<string, number>();
  const asked = nws.asked.length;
  const args = ['-c', 'config.yml', '--create-tables', '--once', '--format', 'json'];
  let killed = 0;
  for (const [index, moment] of moments.entries()) {
    nws.show(moment);
    writeFileSync(path.join(cwd, 'config.yml'), config(index === 0 ? [] : ['OKX']));
    if (index === 1) {
      writeFileSync(path.join(cwd, 'offices.csv'), officeTable);
      t.equal((await start(cwd, ['-c', 'config.yml', 'offices.csv']).ended).status, 0);
    }
    const due = Math.round(((index + 1) * kills) / moments.length);
    while (killed < due) {
      const running = start(cwd, args);
      const strikeAfter = (ms: number): unknown => setTimeout(() => running.child.kill('SIGKILL'), ms);
      // Some kills happen while the database and the tables are created, most between two documents or
      // within one.
      let left = Math.floor(random() * 12);
      const ms = random() * 30;
      let place = 'as it starts';
      if (left === 0) strikeAfter(200 + 40 * ms);
      nws.onRequest = (path) => {
        left -= 1;
        if (left === 0) {
          place = `up to ${Math.ceil(ms)} ms after ${path}`;
          strikeAfter(ms);
        }
      };
      const { signal } = await running.ended;
      nws.onRequest = null;
      if (signal !== 'SIGKILL') continue;
      killed += 1;
      t.comment(`kill ${killed} of ${kills}, moment ${index}: ${place}`);
      const where = place.replace(/.* after /, '');
      places.set(where, (places.get(where) ?? 0) + 1);
    }
    nws.failNext(paths.alerts, refusing(500));
    nws.failNext(paths.hourly, refusing(429, { 'retry-after': '1' }));
    const last = start(cwd, args);
    const { status } = await last.ended;
    t.equal(status, 0, status === 0 ? `moment ${index}` : last.output());
  }
  t.equal(killed, kills);
  const lines = [...places].sort(([, a], [, b]) => b - a).map(([place, count]) => `${count} ${place}`);
  t.comment(`${killed} kills in ${places.size} places: ${lines.join(', ')}`);
  const statuses = new Set(nws.asked.slice(asked).map(({ status }) => status));
  // Earlier data is optional for a single moment.
  for (const status of moments.length > 1 ? [200, 304, 429, 500] : [200, 429, 500])
    t.ok(statuses.has(status), `the service answered ${status}`);
}

t.test('any number of killed feeders leave the tables of one clean load', async (t) => {
  const all = dayOfChanges();
  const nws = await startNws(all[0]!);
  t.teardown(() => nws.close());
  const cleanly = (moments: readonly Moment[]): Promise<Record<string, string[]>> =>
    withServer(async (target) => {
      await emptied(target);
      await feedDay(target, nws, moments);
      return dump(target);
    });

  await t.test('on a server', async (t) => {
    const moments = isExhaustive ? all : all.slice(0, 4);
    const expected = await cleanly(moments);
    t.ok(Object.values(expected).flat().length > 150);
    await dropTables();
    const kills = howMany(40, 2);
    t.comment(`${share(kills, 40)} kills`);
    const config = (offices: readonly string[]): string => configured(`nws: ${nwsYaml(nws.url, offices)}`);
    await killedDay(t, { nws, moments }, { cwd: t.testdir({}), config }, kills);
    const tables = await withServer(dump);
    t.same(tables, expected);
    for (const table of ['stations', 'zones', 'offices'])
      t.ok((tables[table]?.length ?? 0) > 0, `there are ${table}`);
  });

  // Each start takes seconds of processor time.
  await t.test('on an embedded database', async (t) => {
    const moments = isExhaustive ? all : all.slice(0, 1);
    const expected = await cleanly(moments);
    const embedded = 'databases: [{ name: main, driver: pglite, directory: ./database }]\n';
    const cwd = t.testdir({});
    const config = (offices: readonly string[]): string =>
      `${embedded}weather: { feed: { nws: ${nwsYaml(nws.url, offices)} } }\n`;
    const kills = howMany(10, 1);
    t.comment(`${share(kills, 10)} kills`);
    await killedDay(t, { nws, moments }, { cwd, config }, kills);
    const target = await openDirectory(path.join(cwd, 'database'));
    t.same(await dump(target), expected);
    await target.close();
  });
});
