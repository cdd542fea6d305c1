import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { openDirectory } from '../../src/weather/feed/tables/open-directory.ts';
import { openServer } from '../../src/weather/feed/tables/open-server.ts';
import { startPostgres } from '../services/postgres.ts';
import { feedAll } from '../weather/feed-samples.ts';

const program = path.resolve('dist/cli/weather.js');
const waybill = path.resolve('dist/cli/main.js');
const templates = path.resolve('templates/weather');

interface Started {
  child: ChildProcess;
  /** Lines of stderr so far. */
  lines: string[];
  /** The exit code, once it has ended. */
  ended: Promise<number | null>;
}

/** The reader logs text lines, the daemon JSON. */
function listeningAt(line: string): string | undefined {
  return (/weather: listening .*url=(\S+)/.exec(line) ?? /"url":"([^"]+)".*"listening"/.exec(line))?.[1];
}

function start(t: Test, cwd: string, command: string[], env: Record<string, string> = {}): Started {
  const child = spawn(process.execPath, command, {
    cwd,
    env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const lines: string[] = [];
  const reader = createInterface(child.stderr).on('line', (line) => lines.push(line));
  const ended = Promise.all([once(child, 'exit'), once(reader, 'close')]).then(() => child.exitCode);
  return { child, lines, ended };
}

/** The URL that a reader printed. */
async function listening({ child, lines, ended }: Started): Promise<string> {
  const failed = ended.then(() => {
    throw new Error(lines.join('\n'));
  });
  failed.catch(() => undefined);
  for (;;) {
    const url = lines.map((line) => listeningAt(line)).find(Boolean);
    if (url !== undefined) return url;
    if (child.stderr === null) throw new Error('no stderr');
    await Promise.race([once(child.stderr, 'data'), failed]);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

// Starting the embedded database takes seconds of processor time. One directory serves the programs that
// need it, one after another, and a server serves those that only need a database.
const database = path.join(t.testdir({}), 'database');
const directory = await openDirectory(database);
await feedAll(directory);
await directory.close();

const server = await startPostgres();
t.teardown(() => server.remove());
const owner = await openServer(server.url());
await feedAll(owner);
await owner.close();
const WEATHER_URL = server.url('weather_reader');

/** Every endpoint has data in every format, with the requested type. */
async function answersAll(t: Test, url: string): Promise<void> {
  const endpoints = [
    'observations',
    'current-conditions?station=KNYC',
    'alerts',
    'forecasts/hourly?location=OKX/33,35',
    'forecasts/narrative?location=OKX/33,35',
    'forecast-discussions?office=OKX',
    'weather-stories?office=MKX',
    'convective-outlooks?day=1',
    'convective-outlooks/discussions?day=1',
  ];
  const types = { json: 'application/json', xml: 'application/xml', text: 'text/plain' };
  for (const endpoint of endpoints)
    for (const [format, type] of Object.entries(types)) {
      const response = await fetch(`${url}${endpoint}${endpoint.includes('?') ? '&' : '?'}format=${format}`);
      const body = await response.text();
      t.equal(response.status, 200, `${endpoint} as ${format}: ${body.slice(0, 200)}`);
      t.match(response.headers.get('content-type'), type);
      t.ok(body.length > 10);
    }
}

const embedded = `
server: { http: { listen: "127.0.0.1:0", cors: { origins: ["https://maps.example.org"] } } }
databases: [{ name: embedded, driver: pglite, directory: ${JSON.stringify(database)} }]
templates: { base_dir: ${JSON.stringify(templates)} }
`;
const onServer = embedded.replace(
  /databases: .*/,
  'databases: [{ name: one, driver: postgres, url_env: WEATHER_URL }]',
);
const form = /^\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d\.\d{6} weather: /;

t.test('serves until it is stopped', async (t) => {
  const place = t.testdir({ 'config.yml': onServer, 'other.yml': onServer });
  const ways: [string, string[], Record<string, string>, NodeJS.Signals][] = [
    ['-config', [program, '-config', 'other.yml'], { READER_CONFIG: 'none.yml' }, 'SIGTERM'],
    ['-config=', [program, '-config=other.yml'], {}, 'SIGINT'],
    ['--config', [program, '--config', 'other.yml'], {}, 'SIGTERM'],
    ['READER_CONFIG', [program], { READER_CONFIG: 'other.yml' }, 'SIGTERM'],
    ['config.yml', [program], {}, 'SIGTERM'],
    ['waybill weather -config', [waybill, 'weather', '-config', 'other.yml'], {}, 'SIGINT'],
  ];
  for (const [name, command, env, signal] of ways)
    await t.test(name, async (t) => {
      const started = start(t, place, command, { WEATHER_URL, ...env });
      const url = await listening(started);
      for (const format of ['json', 'xml', 'text', 'geojson', 'csv']) {
        const headers = { origin: 'https://maps.example.org' };
        const response = await fetch(`${url}observations?format=${format}`, { headers });
        t.equal(response.status, 200, format);
        t.equal(response.headers.get('access-control-allow-origin'), headers.origin);
      }
      for (const other of ['SIGUSR2', 'SIGHUP'] as const) started.child.kill(other);
      const isOver = (): boolean => started.child.signalCode !== null;
      while (!isOver() && !started.lines.some((line) => line.includes('is not read again')))
        await new Promise((resolve) => setImmediate(resolve));
      t.equal((await fetch(`${url}observations`)).status, 200, 'it keeps serving');
      started.child.kill(signal);
      t.equal(await started.ended, 0);
      t.match(started.lines.at(-1), /weather: stopped$/);
      for (const line of started.lines) t.match(line, form);
    });
});

t.test('the example answers all nine endpoints in three formats', async (t) => {
  const example = await readFile('examples/weather/config.yml', 'utf8');
  const place = t.testdir({
    'config.yml': example
      .replace('127.0.0.1:8081', '127.0.0.1:0')
      .replace('./database', JSON.stringify(database))
      .replace('./templates/weather', JSON.stringify(templates)),
  });
  const started = start(t, place, [program, '-config', 'config.yml']);
  await answersAll(t, await listening(started));
  started.child.kill('SIGTERM');
  t.equal(await started.ended, 0);
});

t.test(
  'answers weather requests in the daemon if a database is configured, next to its own routes',
  async (t) => {
    const place = t.testdir({
      'config.yml': `${embedded.replace('listen: "127.0.0.1:0"', 'listen: "127.0.0.1:0", base_path: /api')}
upload_tokens: [{ id: ci, value_env: UPLOAD_TOKEN, pipelines: [maps] }]
pipelines:
  - id: maps
    source: { backend: http_upload }
    destinations: [{ id: web, backend: local, path: ./public }]
`,
    });
    const started = start(t, place, [waybill, 'serve', '--config', 'config.yml'], {
      UPLOAD_TOKEN: 'a-token-of-the-test-alone',
    });
    const url = await listening(started);
    t.match(url, /\/api\/$/);
    await answersAll(t, url);
    t.equal((await fetch(`${url}healthz`)).status, 200);
    t.equal((await fetch(`${url}v1/pipelines/maps/upload`, { method: 'POST' })).status, 401);
    started.child.kill('SIGTERM');
    t.equal(await started.ended, 0);
  },
);

t.test('starts and reports degraded while the weather database is unreachable', async (t) => {
  const place = t.testdir({
    'config.yml': onServer.replace('}]', ', connect_timeout: 1s }]'),
  });
  await server.stop();
  const started = start(t, place, [waybill, 'serve', '--config', 'config.yml'], { WEATHER_URL });
  const url = await listening(started);
  const health = async (): Promise<unknown> => (await fetch(`${url}healthz`)).json();
  const until = async (weather: string): Promise<void> => {
    for (;;) {
      const now = (await health()) as { status: string; details: { weather: string } };
      if (now.status === 'ok' && now.details.weather === weather) return;
      await new Promise((resolve) => setImmediate(resolve));
    }
  };
  await until('degraded');
  t.match(await (await fetch(`${url}metrics`)).text(), /^waybill_weather_database_up 0$/m);
  t.equal((await fetch(`${url}observations`)).status, 503);
  t.ok(started.lines.some((line) => line.includes('a weather database is unreachable')));
  await server.start();
  await until('ok');
  t.equal((await fetch(`${url}observations`)).status, 200);
  t.equal((await fetch(`${url}observations?format=text`)).status, 200);
  started.child.kill('SIGTERM');
  t.equal(await started.ended, 0);
});

t.test('without templates.base_dir it uses the templates of the package, in any directory', async (t) => {
  const place = t.testdir({ 'config.yml': onServer.replace(/templates: .*/, '') });
  const started = start(t, place, [program], { WEATHER_URL });
  const url = await listening(started);
  t.match(await (await fetch(`${url}observations?format=text`)).text(), /^Temperature/m);
  t.match(await (await fetch(`${url}openapi.json`)).json(), { paths: { '/observations': {} } });
  started.child.kill('SIGTERM');
  t.equal(await started.ended, 0);
});

t.test('a failure at the start is one line with its context, and exit code 1', async (t) => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.teardown(() => taken.close());
  const { port } = taken.address() as AddressInfo;
  const place = t.testdir({
    'broken.yml': 'databases: [',
    'unknown.yml': 'colour: red\nshape: round\n',
    'none.yml': 'databases: []\npipelines: []\n',
    'secret.yml': 'databases: [{ name: one, driver: postgres, url_env: MISSING_URL }]\n',
    'down.yml': 'databases: [{ name: one, driver: postgres, url_env: DOWN_URL }]\n',
    'second.yml': onServer.replace('}]', '}, { name: second, driver: postgres, url_env: DOWN_URL }]'),
    'taken.yml': onServer.replace('127.0.0.1:0', `127.0.0.1:${port}`),
  });
  const failures: [string, RegExp][] = [
    ['absent.yml', /weather: load config: .*absent\.yml/],
    ['broken.yml', /weather: load config: /],
    ['unknown.yml', /weather: load config: .*colour.*shape/],
    ['none.yml', /weather: (load config: .*|)config\.databases requires at least one entry/],
    ['secret.yml', /weather: open databases: .*MISSING_URL/],
    ['down.yml', /weather: open databases: the database "one" cannot be reached/],
    ['second.yml', /weather: open databases: the database "second" cannot be reached/],
    ['taken.yml', /weather: build app: .*cannot listen/],
  ];
  for (const [file, reason] of failures)
    await t.test(file, async (t) => {
      const env = { WEATHER_URL, DOWN_URL: 'postgres://someone:hunter2@127.0.0.1:1/none' };
      const { lines, ended } = start(t, place, [program, '-config', file], env);
      t.equal(await ended, 1);
      const errors = lines.filter((line) => !line.includes(' warn: '));
      t.equal(errors.length, 1, errors.join('\n'));
      t.match(errors[0], reason);
      t.match(errors[0], form);
      t.notMatch(lines.join('\n'), 'hunter2');
    });
});

t.test('a wrong command line is exit code 2', async (t) => {
  const { lines, ended } = start(t, t.testdir({}), [program, '--port', '1']);
  t.equal(await ended, 2);
  t.match(lines.join('\n'), /usage: waybill-weather/);
});
