import { readdirSync } from 'node:fs';
import path from 'node:path';
import postgres from 'postgres';
import t, { type Test } from 'tap';
import { startPostgres } from '../services/postgres.ts';
import { World } from './harness.ts';
import { place, type Reader, startReader } from './weather-reader.ts';

/** The weather reader on a PostgreSQL server that `waybill weather feed` has filled with samples. */

const server = await startPostgres();
t.teardown(async () => server.remove());
const admin = postgres(server.url(), { max: 1, onnotice: () => undefined });
t.teardown(async () => admin.end());
const urlOf = (database: string, role?: string): string => server.url(role).replace(/postgres$/, database);

await admin`CREATE DATABASE filled`;
await admin`CREATE DATABASE empty`;
await admin`CREATE DATABASE bare`;
const world = new World(t, '');
world.write('nothing/SOURCES.md', '');
const yaml = (names: readonly string[], more = ''): string => `
server: {http: {listen: "127.0.0.1:0"}}
databases:
${names.map((name) => `  - {name: ${name}, driver: postgres, url_env: URL_${name.toUpperCase()}}`).join('\n')}
${more}
`;
const databases = ['filled', 'empty', 'bare', 'down'] as const;
const roles = Object.fromEntries(
  databases.map((name) => [`URL_${name.toUpperCase()}`, urlOf(name, 'weather_reader')]),
);
const env: Record<string, string> = { ...roles, URL_DOWN: 'postgres://x@127.0.0.1:9/x' };
for (const [database, samples] of [
  ['filled', path.resolve('test/fixtures/weather')],
  ['empty', 'nothing'],
] as const) {
  Object.assign(world.env, env, { FEED: urlOf(database) });
  world.write('feed.yml', yaml([database], 'weather: {feed: {url_env: FEED}}'));
  const fed = await world.cli('weather', 'feed', '--config', 'feed.yml', '--create-tables', samples);
  if (database === 'filled' && fed.status !== 0) throw new Error(fed.stderr);
}

/** Starts the reader with the URLs of the databases. */
async function start(
  t: Pick<Test, 'teardown'>,
  cwd: string,
  args: string[],
  more: Record<string, string> = {},
): Promise<Reader> {
  return startReader(t, cwd, args, { ...env, ...more });
}

const withTemplates = 'templates: {base_dir: ./templates}';
const here = place(t, { 'config.yml': yaml(['filled', 'empty'], withTemplates) });
const filesBefore = Object.keys(here.files('.'));
const reader = await start(t, here.root, []);
const get = async (name: string, headers: Record<string, string> = {}, from = reader): Promise<Response> =>
  fetch(new URL(name, from.url), { headers });
const data = async (name: string, from = reader): Promise<unknown> =>
  ((await (await get(name, {}, from)).json()) as { data: unknown }).data;

const endpoints = [
  'observations',
  'current-conditions?station=KNYC',
  'alerts',
  'forecasts/hourly?location=OKX/33,35',
  'forecasts/narrative?location=OKX/33,35',
  'forecast-discussions?office=OKX',
  'weather-stories?office=MKX',
  'convective-outlooks',
  'convective-outlooks/discussions',
];
const inFormat = (endpoint: string, format: string): string =>
  `${endpoint}${endpoint.includes('?') ? '&' : '?'}format=${format}`;

t.test('The service is a read-only HTTP service.', async (t) => {
  for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
    const { status } = await fetch(new URL('observations', reader.url), { method });
    t.equal(status, 405, method);
  }
});

for (const title of [
  'It serves the latest weather records from tables in a SQL relational database that a separate ingest feeder populates.',
  '200 with populated `data` · Service and read path working.',
  'Feeder-owned weather tables already created and populated.',
])
  t.test(title, async (t) => {
    const response = await get('observations?format=json');
    t.equal(response.status, 200);
    t.type(((await response.json()) as { data: unknown }).data, 'object');
  });

t.test('starting', async (t) => {
  const at = place(t, {
    'flag.yml': yaml(['filled']),
    'variable.yml': yaml(['empty']),
    'config.yml': yaml(['empty', 'filled']),
  });
  const hasData = async (args: string[], more: Record<string, string> = {}): Promise<boolean> => {
    const started = await start(t, at.root, args, more);
    const found = await data('observations', started);
    await started.end();
    return found !== null;
  };

  t.test(
    'resolves the config path from the `-config` flag, then the environment variable `READER_CONFIG`, then the default `config.yml`;',
    async (t) => {
      t.ok(
        await hasData(['-config', 'flag.yml'], { READER_CONFIG: 'variable.yml' }),
        'the flag takes precedence',
      );
      at.write('variable.yml', yaml(['filled']));
      t.ok(await hasData([], { READER_CONFIG: 'variable.yml' }), 'then the variable');
      t.notOk(await hasData([]), 'then the default');
    },
  );

  t.test(
    'selects the first configured database as the primary weather data store (the only one used for reads);',
    async (t) => {
      t.notOk(await hasData([]), 'the first is empty, the second filled');
      at.write('config.yml', yaml(['filled', 'empty']));
      t.ok(await hasData([]));
    },
  );
});

/** The log of a start that must fail. */
async function failure(t: Test, config: string | null): Promise<string> {
  const at = place(t, config === null ? {} : { 'config.yml': config });
  return start(t, at.root, []).then(
    () => 'it started',
    (error: unknown) => String(error),
  );
}

t.test('startup failures', async (t) => {
  const logs = {
    load: await failure(t, null),
    yaml: await failure(t, 'server: ['),
    none: await failure(t, 'databases: []'),
    open: await failure(t, yaml(['filled', 'down'])),
    build: await failure(t, yaml(['filled']).replace('127.0.0.1:0', new URL(reader.url).host)),
  };

  t.test('Startup failures are fatal and are logged with a prefix naming the service.', async (t) => {
    for (const log of Object.values(logs)) t.match(log, / weather: /);
  });

  t.test(
    'Failure contexts: `load config`, `config.databases requires at least one entry`, `open databases`, `select primary database`, `build app`.',
    async (t) => {
      t.match(logs.load, 'load config');
      t.match(logs.none, 'config.databases requires at least one entry');
      t.match(logs.open, 'open databases');
      t.match(logs.build, 'build app');
    },
  );

  t.test('loads the YAML configuration;', async (t) => {
    t.match(logs.yaml, /load config: .*config\.yml/);
  });

  t.test('opens all configured database handles;', async (t) => {
    t.match(logs.open, /"down"/, 'the second cannot be opened');
  });

  t.test('A reachable SQL database with at least one entry under `databases` in config.', async (t) => {
    t.match(await failure(t, yaml(['down'])), /"down"/);
    t.match(logs.none, 'requires at least one entry');
  });
});

for (const title of [
  'registers the HTTP endpoints and text templates;',
  'Every implemented endpoint supports `format=text`.',
])
  t.test(title, async (t) => {
    for (const endpoint of endpoints) {
      const response = await get(inFormat(endpoint, 'text'));
      t.equal(response.status, 200, endpoint);
      t.match(response.headers.get('content-type'), 'text/plain');
    }
  });

t.test('starts the HTTP server.', async (t) => {
  t.equal((await get('observations')).status, 200);
});

t.test(
  'The process handles SIGINT and SIGTERM and shuts the HTTP server down gracefully after the runtime context is canceled.',
  async (t) => {
    const at = place(t, { 'config.yml': yaml(['filled']) });
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const started = await start(t, at.root, []);
      t.equal(await started.end(signal), 0, signal);
      await t.rejects(get('observations', {}, started));
    }
  },
);

t.test(
  'Logging uses the standard logger with date, time and microseconds, written to standard error.',
  async (t) => {
    t.ok(reader.lines.length > 0);
    for (const line of reader.lines) t.match(line, /^\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d\.\d{6} weather: /);
  },
);

t.test('templates', async (t) => {
  const at = place(t, { 'config.yml': yaml(['filled'], `${withTemplates}\nweather: {cache: 0s}`) });
  const started = await start(t, at.root, []);
  const whole = await get('observations?format=text', {}, started);
  at.write('templates/observations.txt.tmpl', 'a template of ours');
  const changed = await (await get('observations?format=text', {}, started)).text();
  at.remove('templates');
  const missing = await get('observations?format=text', {}, started);
  const others = await Promise.all(
    ['json', 'xml'].map(async (one) => get(`observations?format=${one}`, {}, started)),
  );

  t.test('The templates directory, required for `format=text`.', async (t) => {
    t.equal(whole.status, 200);
    t.not(missing.status, 200);
  });

  for (const title of [
    'The process working directory must match `templates.base_dir` (a relative path resolves from the working directory).',
    'Text output uses the template named by each endpoint, stored as `*.txt.tmpl` files under `templates.base_dir`.',
  ])
    t.test(title, async (t) => {
      t.match(changed, 'a template of ours');
    });

  t.test('JSON and XML do not use templates.', async (t) => {
    t.same(
      others.map(({ status }) => status),
      [200, 200],
    );
  });

  t.test(
    'Text rendering can return an unsupported-format error when templates are unreadable or missing.',
    async (t) => {
      t.equal(missing.status, 406);
      t.match(await missing.text(), /unsupported.format/i);
    },
  );
});

t.test(
  'Templates exist for observations, current conditions, active alerts, hourly forecasts, narrative forecasts, forecast discussions, weather stories and convective outlooks.',
  async (t) => {
    const names = readdirSync('templates/weather');
    for (const name of [
      'observations',
      'current_conditions',
      'active_alerts',
      'hourly_forecasts',
      'narrative_forecasts',
      'forecast_discussions',
      'weather_stories',
      'convective_outlooks',
    ])
      t.ok(names.includes(`${name}.txt.tmpl`), name);
  },
);

for (const title of [
  'Endpoint families read these record kinds: observations, current conditions (an aggregation), active alerts, hourly forecasts, narrative forecasts, forecast discussions, weather stories, convective outlooks.',
  'Response envelope (JSON form): an object with a `data` property.',
])
  t.test(title, async (t) => {
    for (const endpoint of endpoints) {
      const response = await get(inFormat(endpoint, 'json'));
      t.equal(response.status, 200, endpoint);
      t.ok(Object.hasOwn((await response.json()) as object, 'data'), endpoint);
    }
  });

t.test('an empty database', async (t) => {
  const at = place(t, { 'config.yml': yaml(['empty']), 'bare.yml': yaml(['bare']) });
  const empty = await start(t, at.root, []);
  const response = await get('observations', {}, empty);

  for (const title of [
    '`data` is null when no latest record is available, and an object when one is.',
    '200 with `data` null · Service running; no latest record for that endpoint.',
  ])
    t.test(title, async (t) => {
      t.equal(response.status, 200);
      t.equal(await data('observations', empty), null);
      t.type(await data('observations'), 'object');
    });

  t.test('It does not ingest provider data, create tables or run migrations.', async (t) => {
    const sql = postgres(urlOf('bare'), { max: 1 });
    const bare = await start(t, at.root, ['-config', 'bare.yml'], { URL_BARE: urlOf('bare') }).catch(
      () => null,
    );
    if (bare !== null) await get('observations', {}, bare);
    const tables = await sql`SELECT 1 FROM information_schema.tables WHERE table_schema = 'public'`;
    t.equal(tables.length, 0);
    await sql.end();
  });

  t.test(
    "Convective outlook endpoints require the feeder's `weather.outlook.v2` table shape, with tables `outlook_runs`, `outlooks` and `outlook_discussions`.",
    async (t) => {
      const sql = postgres(urlOf('empty'), { max: 1 });
      for (const table of ['outlook_runs', 'outlooks', 'outlook_discussions']) {
        const found =
          await sql`SELECT table_schema FROM information_schema.tables WHERE table_name = ${table}`;
        t.equal(found.length, 1, table);
        await sql`ALTER TABLE ${sql(`${String(found[0]?.['table_schema'])}.${table}`)} RENAME TO away`;
        const outlook = await get(
          table === 'outlook_discussions' ? 'convective-outlooks/discussions' : 'convective-outlooks',
          {},
          empty,
        );
        t.ok(outlook.status >= 500, `without ${table}: ${outlook.status}`);
        t.equal((await get('observations', {}, empty)).status, 200);
        await sql`ALTER TABLE ${sql(`${String(found[0]?.['table_schema'])}.away`)} RENAME TO ${sql(table)}`;
      }
      await sql.end();
    },
  );
});

t.test(
  'GET (the request form used for checks) · `{base_url}/observations` · Query parameter `format`: `json`, `xml` or `text`. Returns the latest observation in the `data` envelope.',
  async (t) => {
    for (const [format, type] of Object.entries({
      json: 'application/json',
      xml: 'application/xml',
      text: 'text/plain',
    })) {
      const response = await get(`observations?format=${format}`);
      t.equal(response.status, 200);
      t.match(response.headers.get('content-type'), type);
    }
  },
);

t.test(
  'There is no dedicated health endpoint; an implemented read endpoint serves as the service check.',
  async (t) => {
    for (const name of ['health', 'healthz', 'readyz', 'livez']) t.equal((await get(name)).status, 404, name);
    t.equal((await get('observations')).status, 200);
  },
);

t.test('400 Bad Request · Request validation failure.', async (t) => {
  for (const query of ['unknown=1', 'station=', 'maxAge=x'])
    t.equal((await get(`observations?${query}`)).status, 400);
});

t.test('406 Not Acceptable · Format negotiation failure.', async (t) => {
  t.equal((await get('observations', { accept: 'image/png' })).status, 406);
});

t.test('There is no local durable state.', async (t) => {
  t.same(Object.keys(here.files('.')), filesBefore);
});

t.test('5xx · Runtime, database or handler failure.', async (t) => {
  const at = place(t, { 'config.yml': yaml(['filled']) });
  const started = await start(t, at.root, []);
  await admin.end();
  await server.stop();
  t.ok((await get('alerts', {}, started)).status >= 500);
});
