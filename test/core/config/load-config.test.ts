import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, relative } from 'node:path';
import t from 'tap';
import { keyPath } from '../../../src/core/config/faults.ts';
import { loadConfig } from '../../../src/core/config/load-config.ts';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { complaintsOf, findingsOf, parse, withDestination, withHttp } from './parse.ts';

/** The default settings of destinations. */
const modes = { file: 0o644, directory: 0o755 };

const minimal = withDestination('backend: local, path: ./out');

async function failure(work: Promise<unknown>): Promise<WaybillError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof WaybillError) return error;
    throw error;
  }
  throw new Error('it did not fail');
}

t.test('the smallest configuration gets all defaults', async (t) => {
  const { config, warnings } = parse(minimal);
  t.same(warnings, []);
  t.strictSame(config, {
    file: '/etc/waybill/c.yml',
    audit: null,
    secrets: { directory: null },
    trustedDirectories: [],
    databases: [],
    templates: { baseDir: null },
    weather: {
      cacheMs: 1000,
      deadlineMs: 5000,
      staleAfter: {
        observationsMs: 7_200_000,
        currentConditionsMs: 7_200_000,
        alertsMs: 600_000,
        hourlyForecastsMs: 21_600_000,
        narrativeForecastsMs: 43_200_000,
        forecastDiscussionsMs: 43_200_000,
        weatherStoriesMs: 86_400_000,
        convectiveOutlooksMs: 93_600_000,
        outlookDiscussionsMs: 93_600_000,
      },
      feed: { database: null, urlEnv: null, watch: null, nws: null },
    },
    uploadTokens: [],
    trustedPublishers: [],
    server: {
      http: {
        host: '127.0.0.1',
        port: 8080,
        basePath: '/',
        trustedProxies: ['loopback'],
        allowedHosts: null,
        retentionMs: 86_400_000,
        queueSize: 32,
        maxConcurrency: 2,
        uploadTimeoutMs: 1_800_000,
        idleTimeoutMs: 60_000,
        maxConnections: 2000,
        maxStreams: 1000,
        maxStreamsPerClient: 250,
        maxUploadsPerToken: null,
        maxBodyMemory: 64 * 1024 * 1024,
        shutdownTimeoutMs: 30_000,
        protectRuns: false,
        protectSceneMaps: false,
        cors: null,
      },
      metrics: { enabled: true, tokenEnv: null },
      console: { enabled: true, sessionMs: 43_200_000, sessionKeyEnv: null, login: null },
      adminTokenEnv: null,
      tokenKeysEnv: null,
      staging: {
        directory: '/etc/waybill/staging',
        shared: null,
        keep: { maxBytes: null, ageMs: 7 * 86_400_000 },
      },
      queue: { driver: 'memory' },
      retryForMs: 1_800_000,
      rerun: {
        keepMs: 366 * 86_400_000,
        maxBundles: Number.MAX_SAFE_INTEGER,
        maxBytes: Number.MAX_SAFE_INTEGER,
      },
      resumable: {
        maxUploads: 32,
        maxBytes: Number.MAX_SAFE_INTEGER,
        maxUploadsPerToken: null,
        maxBytesPerToken: null,
        retentionMs: 86_400_000,
      },
      worker: { listen: null },
    },
    log: { level: 'info', requests: 'all' },
    tracing: null,
    pipelines: [
      {
        id: 'p',
        source: { backend: 'local', path: '/etc/waybill/in' },
        sourceId: '/etc/waybill/in',
        destinations: [
          {
            id: 'd',
            location: { backend: 'local', path: '/etc/waybill/out', modes },
            mapping: 'preserve_relative',
            workflow: 'additive',
            stale: 'publish',
            orphans: 'keep',
            publicBaseUrl: null,
            cacheControl: null,
            outputs: { checksums: false, archive: false, index: false, sceneMapPage: false, signature: null },
            rootIndex: false,
            releases: null,
            prune: { enabled: false, keepLatest: null, olderThanMs: null },
            limits: { maxRemoved: null },
            maxRate: null,
            fileConcurrency: 8,
          },
        ],
        maxWaiting: null,
        retryForMs: null,
        runTimeoutMs: 43_200_000,
        discoveryTimeoutMs: 3_600_000,
        whileRetrying: 'pass',
        schedule: null,
        watch: null,
        sceneMaps: { contentRules: 'warning' },
        signatures: null,
      },
    ],
    notifiers: [],
  });
});

t.test('the complete example loads without a warning', async (t) => {
  const { config, warnings } = await loadConfig('examples/config/full.yml', { home: homedir() });
  t.same(warnings, []);
  t.same(
    config.pipelines.map(({ source }) => source.backend),
    ['http_upload', 'local', 'sftp', 's3'],
  );
  t.match(config.pipelines[0]?.destinations, [
    {
      prune: { enabled: true, keepLatest: 20, olderThanMs: 90 * 86_400_000 },
      publicBaseUrl: 'https://maps.example.org/',
    },
    {
      location: {
        backend: 'sftp',
        port: 22,
        sshKeyFile: join(homedir(), '.ssh/id_ed25519'),
        maxRequests: 64,
        maxConnections: 4,
      },
      mapping: 'fixed',
    },
    {
      location: {
        credentials: { accessKeyIdEnv: 'MAPS_KEY', secretAccessKeyEnv: 'MAPS_SECRET' },
        pathStyle: true,
        allowBucketRoot: false,
      },
    },
  ]);
});

t.test('SFTP and S3 settings have their own defaults', async (t) => {
  const [sftp, plain, endpoint, chosen] = [
    'backend: sftp, host: h, user: u, path: in/x',
    'backend: s3, bucket: b',
    'backend: s3, bucket: b, endpoint: "http://127.0.0.1:9000/"',
    'backend: s3, bucket: b, endpoint: "https://s3.example.org/base/", path_style: false, allow_bucket_root: true',
  ].map((settings) => parse(withDestination(settings)).config.pipelines[0]?.destinations[0]?.location);
  t.strictSame(sftp, {
    backend: 'sftp',
    host: 'h',
    port: 22,
    user: 'u',
    path: 'in/x',
    sshKeyFile: null,
    sshKeyPassphraseEnv: null,
    sshAgentSocket: null,
    hostKeyPolicy: 'accept-new',
    knownHostsFile: '/home/me/.ssh/known_hosts',
    maxRequests: 64,
    maxConnections: 4,
    modes,
  });
  t.strictSame(plain, {
    backend: 's3',
    bucket: 'b',
    prefix: '',
    endpoint: null,
    region: null,
    pathStyle: false,
    credentials: null,
    allowBucketRoot: false,
  });
  t.match(endpoint, { endpoint: 'http://127.0.0.1:9000', pathStyle: true });
  t.match(chosen, { endpoint: 'https://s3.example.org/base', pathStyle: false, allowBucketRoot: true });
});

t.test('normalizes values', async (t) => {
  const http = (settings: string) => parse(withHttp(settings)).config.server.http;
  for (const [listen, host, port] of [
    ['0.0.0.0:80', '0.0.0.0', 80],
    ['"[::1]:8080"', '::1', 8080],
    ['"[::]:0"', '::', 0],
    ['localhost:65535', 'localhost', 65_535],
  ] as const)
    t.match(http(`listen: ${listen}`), { host, port }, listen);
  for (const [text, base] of [
    ['waybill', '/waybill/'],
    ['/waybill', '/waybill/'],
    ['/a/b/', '/a/b/'],
    ['/', '/'],
  ] as const)
    t.equal(http(`base_path: ${text}`).basePath, base, text);
  t.same(http('trusted_proxies: []').trustedProxies, []);
  const origins = ['https://app.example.org', 'http://localhost:5173', 'http://[::1]:8080', '*'];
  t.same(http(`cors: { origins: ${JSON.stringify(origins)} }`).cors, { origins });
  t.same(http('trusted_proxies: [10.0.0.0/8, "fd00::/8", uniquelocal]').trustedProxies, [
    '10.0.0.0/8',
    'fd00::/8',
    'uniquelocal',
  ]);

  const destination = (settings: string) =>
    parse(withDestination(settings)).config.pipelines[0]?.destinations[0];
  for (const [text, url] of [
    ['https://maps.example.org', 'https://maps.example.org/'],
    ['http://h/a/b', 'http://h/a/b/'],
    ['HTTPS://H/é/', 'https://h/%C3%A9/'],
  ] as const)
    t.equal(destination(`backend: local, path: x, public_base_url: "${text}"`)?.publicBaseUrl, url, text);
  for (const [text, prefix] of [
    ['live', 'live/'],
    ['/live/', 'live/'],
    ['a/b', 'a/b/'],
    ['""', ''],
    ['/', ''],
  ] as const)
    t.match(destination(`backend: s3, bucket: b, prefix: ${text}`)?.location, { prefix }, text);
  for (const [text, path] of [
    ['~/site', '/home/me/site'],
    ['../site/./x//y/', '/etc/site/x/y'],
    ['/srv/site', '/srv/site'],
  ] as const)
    t.match(destination(`backend: local, path: ${text}`)?.location, { path }, text);

  const size = (text: string) =>
    parse(
      `pipelines: [{id: p, source: {backend: http_upload, max_upload_size: ${text}}, destinations: [{id: d, backend: local, path: x}]}]`,
    ).config.pipelines[0]?.source;
  t.match(size('2GB'), { maxUploadSize: 2_000_000_000, maxFiles: 10_000 });
  t.match(size('1024'), { maxUploadSize: 1024 });
  t.match(size('1, max_files: 250000'), { maxFiles: 250_000 });
  t.throws(() => size('1, max_files: 250001'), { code: 'config_invalid' }, 'no manifest lists that many');
});

t.test('a limit of removals is a number or a percentage', async (t) => {
  const limit = (text: string) =>
    parse(minimal.replace(/(backend: local, path: [^,}]+)\}\]/, `$1, limits: {max_removed: ${text}}}]`))
      .config.pipelines[0]?.destinations[0]?.limits;
  t.same(limit('100'), { maxRemoved: { count: 100 } });
  t.same(limit('"7"'), { maxRemoved: { count: 7 } });
  t.same(limit('0'), { maxRemoved: { count: 0 } });
  t.same(limit('20%'), { maxRemoved: { percent: 20 } });
  for (const wrong of ['-1', '1.5', '101%', '20 %', 'many', 'true'])
    t.throws(() => limit(wrong), { code: 'config_invalid', findings: [{ pointer: /max_removed$/ }] }, wrong);
});

t.test('BullMQ requires the name of a variable and has a prefix', async (t) => {
  const queue = (settings: string) => `${minimal}\nserver: {queue: ${settings}}`;
  t.same(parse(queue('{driver: bullmq, redis_url_env: R}')).config.server.queue, {
    driver: 'bullmq',
    redisUrlEnv: 'R',
    redisSentinels: null,
    redisCluster: false,
    signingKeyEnvs: [],
    prefix: 'waybill',
    workerTimeoutMs: 30_000,
  });
  t.match(complaintsOf(queue('{driver: bullmq}')), [/server\.queue\.redis_url_env is missing/]);
  t.match(complaintsOf(queue('{driver: memory, redis_url_env: R}')), [
    /server\.queue\.redis_url_env: unknown key/,
  ]);
});

t.test('a Redis is found by Sentinels, or is a Cluster', async (t) => {
  const queue = (settings: string) =>
    `${minimal}\nserver: {queue: {driver: bullmq, redis_url_env: R, ${settings}}}`;
  const sentinels = 'redis_sentinels: {master: main, hosts: ["one:26379", "[::1]:26380"]}';
  t.match(parse(queue(sentinels)).config.server.queue, {
    redisSentinels: {
      master: 'main',
      hosts: [
        { host: 'one', port: 26379 },
        { host: '::1', port: 26380 },
      ],
    },
  });
  t.match(parse(queue('redis_cluster: true')).config.server.queue, { redisCluster: true });
  for (const [settings, complaint] of [
    [`${sentinels}, redis_cluster: true`, /redis_sentinels cannot be combined with redis_cluster/],
    ['redis_sentinels: {master: main, hosts: []}', /hosts: .*expected a list of addresses, each once/],
    ['redis_sentinels: {master: main, hosts: [one]}', /hosts\[0\]: /],
    ['redis_sentinels: {hosts: ["one:26379"]}', /master is missing/],
  ] as const)
    t.match(complaintsOf(queue(settings)), [complaint], settings);
});

t.test(
  'accepts a directory for staging, or any shared storage with BullMQ, and rejects all else',
  async (t) => {
    const server = (staging: string, queue = '{driver: bullmq, redis_url_env: R}') =>
      `${minimal}\nserver: {staging: ${staging}, queue: ${queue}}`;
    t.match(parse(server('{directory: ./shared}')).config.server.staging, {
      directory: '/etc/waybill/scratch',
      shared: { backend: 'local', path: '/etc/waybill/shared' },
    });
    for (const place of ['directory: ./shared', 'backend: s3, bucket: b'])
      t.same(parse(server(`{${place}, keep: {size: 0, age: 1h}}`)).config.server.staging.keep, {
        maxBytes: 0,
        ageMs: 3_600_000,
      });
    t.match(parse(server('{backend: s3, bucket: b, prefix: up}')).config.server.staging.shared, {
      backend: 's3',
      bucket: 'b',
      prefix: 'up/',
    });
    t.match(parse(server('{backend: sftp, host: h, user: u, path: /p}')).config.server.staging.shared, {
      backend: 'sftp',
      path: '/p',
    });
    t.match(complaintsOf(server('{backend: s3, bucket: b}', '{driver: memory}')), [
      /server\.staging\.backend/,
    ]);
    t.match(complaintsOf(server('{directory: ./scratch/x}')), [/scratch_directory .* contains/]);
    t.match(complaintsOf(server('{backend: ftp}')), [/server\.staging/]);
  },
);

t.test('reports all errors at once, in file order, with their locations', async (t) => {
  const text = `server:
  http: {listen: "::1:80", retention: 30}
pipelines:
  - id: maps
    sorce: {backend: local, path: x}
    destinations:
      - {id: web, backend: locl, path: ./p}
      - id: c
        backend: s3
        bucket: b
        access_key_id_env: K
      - id:
        backend: local
        path: ./q
        file_concurrency: 65
`;
  t.same(complaintsOf(text), [
    'c.yml:2:18 server.http.listen: found the text "::1:80": an IPv6 address needs brackets, as in [::1]:8080; expected host:port such as 127.0.0.1:8080 or [::1]:8080',
    'c.yml:2:39 server.http.retention: found the number 30; expected a duration: a whole number with a unit, such as 500ms, 30s, 15m, 24h or 7d',
    'c.yml:4:5 pipelines[0].source is missing; expected a source such as {backend: local, path: /srv/in}',
    'c.yml:5:5 pipelines[0].sorce: unknown key; did you mean "source"?',
    'c.yml:7:28 pipelines[0].destinations[0].backend: found the text "locl"; expected one of local, sftp, s3; did you mean "local"?',
    'c.yml:11:9 pipelines[0].destinations[1].secret_access_key_env is missing, but access_key_id_env is set; set both or neither',
    'c.yml:12:9 pipelines[0].destinations[2].id: found nothing (null); expected an id of at most 64 lower-case letters, digits, _ and -, beginning with a letter or digit',
    'c.yml:15:27 pipelines[0].destinations[2].file_concurrency: found the number 65; expected a whole number from 1 to 64',
  ]);
});

t.test("parses the settings of the log and of the workers' listener", async (t) => {
  const { log, server } = parse(minimal).config;
  t.same(log, { level: 'info', requests: 'all' });
  t.equal(server.worker.listen, null);
  const set = parse(
    `${minimal}\nlog: {level: fatal, requests: none}\nserver: {worker: {listen: "[::1]:0"}}\n`,
  ).config;
  t.same(set.log, { level: 'fatal', requests: 'none' });
  t.same(set.server.worker.listen, { host: '::1', port: 0 });
  const wrong = 'log: {level: warning, requests: 5, format: x}\nserver:\n  worker: {listen: 9090}\n';
  t.same(complaintsOf(`${wrong}${minimal}`), [
    'c.yml:1:14 log.level: found the text "warning"; expected one of trace, debug, info, warn, error, fatal, silent',
    'c.yml:1:33 log.requests: found the number 5; expected one of all, errors, none',
    'c.yml:1:36 log.format: unknown key; the keys here are level, requests',
    'c.yml:3:20 server.worker.listen: found the number 9090; expected host:port such as 127.0.0.1:8080 or [::1]:8080',
  ]);
});

t.test('tracing is enabled by its section', async (t) => {
  const unset = { endpoint: null, headersEnv: null, serviceName: null, sampleRatio: null };
  t.same(parse(`${minimal}\ntracing: {}\n`).config.tracing, unset);
  const set =
    'tracing: {endpoint: "http://c.example:4318/", headers_env: HEADERS, service_name: maps, sample_ratio: 0.25}';
  t.same(parse(`${minimal}\n${set}\n`).config.tracing, {
    endpoint: 'http://c.example:4318',
    headersEnv: 'HEADERS',
    serviceName: 'maps',
    sampleRatio: 0.25,
  });
  const wrong =
    'tracing: {endpoint: "c.example:4318", headers_env: "a b", sample_ratio: 2, protocol: grpc}\n';
  t.match(complaintsOf(`${wrong}${minimal}`), [
    /^c\.yml:1:21 tracing\.endpoint: .*expected an absolute URL/,
    /^c\.yml:1:52 tracing\.headers_env: .*never the secret value itself/,
    /^c\.yml:1:73 tracing\.sample_ratio: .*expected a number from 0 to 1/,
    /^c\.yml:1:76 tracing\.protocol: unknown key/,
  ]);
});

t.test(
  'parses followed links, and the directories outside of the source that they may refer to',
  async (t) => {
    const withSource = (source: string): string =>
      minimal.replace(/source: \{[^}]*\}/, `source: { ${source} }`);
    const followed = (source: string): unknown => parse(withSource(source)).config.pipelines[0]?.followLinks;
    t.equal(followed('backend: local, path: in, links: skip'), undefined);
    t.same(followed('backend: local, path: in, links: follow'), { linksTo: [] });
    t.same(followed('backend: local, path: in, links: follow, links_to: [shared, /srv]'), {
      linksTo: ['/etc/waybill/shared', '/srv'],
    });
    t.same(followed('backend: sftp, host: h, user: u, path: /x, links: follow'), { linksTo: [] });
    t.match(complaintsOf(withSource('backend: local, path: in, links_to: [/srv]')), [
      /source\.links_to: links are not followed here; expected links: follow/,
    ]);
    t.match(complaintsOf(withSource('backend: sftp, host: h, user: u, path: /x, links_to: [/srv]')), [
      /links_to: unknown key/,
    ]);
  },
);

t.test('each invalid value is rejected at its key', async (t) => {
  const local = 'backend: local, path: x';
  const sftp = 'backend: sftp, host: h, user: u, path: /x';
  const s3 = 'backend: s3, bucket: b';
  const destinations: [settings: string, pointer: string, message: RegExp][] = [
    ['backend: http_upload', '.backend', /one of local, sftp, s3$/],
    ['path: x', '.backend', /is missing/],
    ['backend: local', '.path', /is missing/],
    ['backend: local, path: ""', '.path', /an empty text/],
    ['backend: local, path: ~root/x', '.path', /only "~\/"/],
    ['backend: local, path: /', '.path', /root of the file system/],
    ['backend: local, path: "a\\0b"', '.path', /expected the path/],
    [`${local}, host: h`, '.host', /unknown key; the keys here are/],
    [`${local}, mapping: flat`, '.mapping', /one of preserve_relative, fixed/],
    [`${local}, workflow: replace`, '.workflow', /expected one of additive, replacement/],
    [`${local}, force: true`, '.force', /--force does/],
    [`${local}, file_concurrency: 0`, '.file_concurrency', /1 to 64/],
    [`${local}, max_rate: 2Mbit`, '.max_rate', /the text "2Mbit"; expected a rate .* such as 2MiB\/s/],
    [`${local}, max_rate: 2`, '.max_rate', /the number 2; expected a rate of at least 1KiB\/s/],
    [`${local}, max_rate: 1023B/s`, '.max_rate', /at least 1KiB\/s/],
    [`${local}, file_concurrency: "8"`, '.file_concurrency', /the text "8"/],
    [`${local}, file_concurrency: 1.5`, '.file_concurrency', /whole number/],
    [`${local}, file_concurrency: 99999999999999999999`, '.file_concurrency', /whole number/],
    [`${local}, outputs: {checksums: yes}`, '.outputs.checksums', /true or false/],
    [`${local}, outputs: [checksums]`, '.outputs', /found a list; expected a map/],
    [`${local}, mapping: fixed, outputs: {root_index: true}`, '.outputs.root_index', /preserve_relative/],
    [
      `${local}, outputs: {signature: {key_env: KEY}}`,
      '.outputs.signature',
      /expected workflow: replacement/,
    ],
    [`${local}, public_base_url: maps.example.org`, '.public_base_url', /https:\/\//],
    [`${local}, public_base_url: "ftp://h/"`, '.public_base_url', /https:\/\//],
    [`${local}, public_base_url: "https://h/?"`, '.public_base_url', /query/],
    [`${local}, public_base_url: "https://h/#a"`, '.public_base_url', /fragment/],
    [`${local}, public_base_url: "https://u:geheim@h/"`, '.public_base_url', /user name or password/],
    [`${local}, public_base_url: "https://"`, '.public_base_url', /not a URL/],
    [`${local}, cache_control: "a\\nb"`, '.cache_control', /Cache-Control/],
    [
      `${local}, retention: {prune: {enabled: true}}`,
      '.retention.prune',
      /pruning is enabled without a limit/,
    ],
    [`${local}, retention: {prune: {keep_latest: -1}}`, '.retention.prune.keep_latest', /whole number/],
    [`${local}, retention: {prune: {older_than: 90}}`, '.retention.prune.older_than', /with a unit/],
    [`${sftp}, password: geheim`, '.password', /not supported; use ssh_key_file or an SSH agent/],
    [`${sftp}, port: 0`, '.port', /1 to 65535/],
    [`${sftp}, host_key_policy: off`, '', /^$/],
    [`${sftp}, host_key_policy: none`, '.host_key_policy', /strict, accept-new, off/],
    [`${sftp}, max_requests: 0`, '.max_requests', /whole number/],
    [`${sftp}, max_connections: 17`, '.max_connections', /whole number|at most|16/],
    ['backend: sftp, host: "h:22", user: u, path: /x', '.host', /includes a port/],
    ['backend: sftp, host: 300.1.1.1, user: u, path: /x', '.host', /neither a name nor an address/],
    ['backend: sftp, host: h, user: "u@h", path: /x', '.user', /a user name/],
    ['backend: sftp, host: h, user: u, path: ~/x', '.path', /do not expand/],
    ['backend: sftp, host: h, user: u, path: a/../b', '.path', /"\.\."/],
    ['backend: s3', '.bucket', /is missing/],
    ['backend: s3, bucket: a/b', '.bucket', /name of a bucket/],
    [`${s3}, prefix: a//b`, '.prefix', /empty segment/],
    [`${s3}, prefix: ../b`, '.prefix', /"\.\."/],
    [`${s3}, prefix: .publisher.tmp`, '.prefix', /reserved/],
    [`${s3}, endpoint: s3.example.org`, '.endpoint', /https:\/\//],
    [`${s3}, secret_access_key_env: K`, '.access_key_id_env', /set both/],
    [`${s3}, secret_access_key: K`, '.secret_access_key', /its name in secret_access_key_env/],
  ];
  for (const [settings, pointer, message] of destinations) {
    if (pointer === '') {
      t.doesNotThrow(() => parse(withDestination(settings)), settings);
      continue;
    }
    const found = findingsOf(withDestination(settings));
    t.match(
      found,
      [{ severity: 'error', pointer: `pipelines[0].destinations[0]${pointer}`, message }],
      settings,
    );
    t.equal(found.length, 1, `${settings}: one finding`);
  }

  const http: [settings: string, key: string, message: RegExp][] = [
    ['listen: 8080', 'listen', /the number 8080/],
    ['listen: localhost', 'listen', /port is missing/],
    ['listen: ":8080"', 'listen', /host is missing/],
    ['listen: "h:http"', 'listen', /not a port/],
    ['listen: "h:65536"', 'listen', /at most 65535/],
    ['listen: "[::1:80"', 'listen', /brackets/],
    ['listen: "[h]:80"', 'listen', /not an IPv6/],
    ['base_path: /a//b', 'base_path', /empty segment/],
    ['base_path: /a/../b', 'base_path', /"\.\."/],
    ['base_path: "/a?b"', 'base_path', /only letters/],
    ['base_path: "/:id"', 'base_path', /only letters/],
    ['retention: 0s', 'retention', /less than 1s/],
    ['idle_timeout: 25d', 'idle_timeout', /more than 24d/],
    ['upload_timeout: 30 m', 'upload_timeout', /with a unit/],
    ['queue_size: 0', 'queue_size', /whole number/],
    ['max_concurrency: .inf', 'max_concurrency', /whole number/],
    ['protect_runs: 1', 'protect_runs', /true or false/],
    ['trusted_proxies: loopback', 'trusted_proxies', /expected a list/],
    ['trusted_proxies: [10.0.0.0/33]', 'trusted_proxies[0]', /CIDR/],
    ['cors: { origins: [] }', 'cors.origins', /at least one/],
    ['cors: {}', 'cors.origins', /a list of origins/],
    ['cors: { origins: ["https://a.example/"] }', 'cors.origins[0]', /send it as https:\/\/a\.example;/],
    ['cors: { origins: ["https://A.example:443"] }', 'cors.origins[0]', /send it as https:\/\/a\.example/],
    ['cors: { origins: ["a.example"] }', 'cors.origins[0]', /begin with https/],
    ['cors: { origins: ["*"], credentials: true }', 'cors.credentials', /origins/],
  ];
  for (const [settings, key, message] of http) {
    const found = findingsOf(withHttp(settings));
    t.match(found, [{ pointer: `server.http.${key}`, message }], settings);
    t.equal(found.length, 1, `${settings}: one finding`);
  }
});

t.test('checks related settings together, even next to other errors', async (t) => {
  const upload = (id: string) =>
    `{id: ${id}, source: {backend: http_upload}, destinations: [{id: d, backend: local, path: ./${id}}]}`;
  const plain =
    '{id: files, source: {backend: local, path: /in}, destinations: [{id: d, backend: local, path: /out}]}';
  const token = (pipelines: string) => `{id: ci, value_env: T, pipelines: ${pipelines}}`;
  const messages = (pipelines: string[], tokens: string[]) =>
    findingsOf(`pipelines: [${pipelines.join()}]\nupload_tokens: [${tokens.join()}]`).map(
      ({ code, pointer, message }) => `${code} ${pointer ?? ''} ${message}`,
    );

  t.match(messages([upload('maps')], [token('[mapz]')]), [
    /^upload_token_missing pipelines\[0\]\.id/,
    /^unknown_pipeline upload_tokens\[0\]\.pipelines\[0\] there is no pipeline "mapz"; did you mean "maps"/,
  ]);
  t.match(messages([upload('maps'), plain], [token('[files, fils]')]), [
    /^upload_token_missing pipelines\[0\]\.id/,
    /^unknown_pipeline upload_tokens\[0\]\.pipelines\[1\] there is no pipeline "fils"; did you mean "files"/,
  ]);
  const audited = (events: string, acts = '') =>
    findingsOf(`pipelines: []\nnotifiers: [{id: n, kind: log, events: [${events}]${acts}}]`).map(
      ({ code, pointer, message }) => `${code} ${pointer ?? ''} ${message}`,
    );
  t.match(audited('audit.recorded')[1], /^invalid_value notifiers\[0\]\.events\[0\] there is no audit trail/);
  t.match(
    audited('bundle.published', ', acts: [login]')[1],
    /^invalid_value notifiers\[0\]\.acts acts has no eff/,
  );
  t.match(messages([upload('a'), upload('a')], [token('[a]')]), [/^duplicate_id pipelines\[1\]\.id/]);
  t.match(messages([upload('a')], [token('[a]'), token('[a]')]), [/^duplicate_id upload_tokens\[1\]\.id/]);
  t.match(messages([upload('a')], [token('[]')]), [
    /^upload_token_missing/,
    /^invalid_value upload_tokens\[0\]\.pipelines found an empty list/,
  ]);

  const destinations = (...settings: string[]) =>
    findingsOf(
      `pipelines: [{id: p, unknown: 1, source: {backend: local, path: ./in}, destinations: [${settings.map((item) => `{${item}}`).join()}]}]`,
    )
      .filter(({ code }) => code !== 'unknown_key')
      .map(({ code, pointer }) => `${code} ${pointer ?? ''}`);
  const at = (index: number, key: string) => `pipelines[0].destinations[${index}].${key}`;
  t.same(destinations('id: a, backend: local, path: a', 'id: a, backend: local, path: b'), [
    `duplicate_id ${at(1, 'id')}`,
  ]);
  t.same(destinations('id: a, backend: local, path: a', 'id: b, backend: local, path: ./x/../a/'), [
    `same_location ${at(1, 'path')}`,
  ]);
  t.same(
    destinations(
      'id: a, backend: sftp, host: H, user: u, path: /a',
      'id: b, backend: sftp, host: h, user: v, path: /a/',
      'id: c, backend: sftp, host: h, port: 23, user: u, path: /a',
    ),
    [`same_location ${at(1, 'path')}`],
  );
  t.same(
    destinations(
      'id: a, backend: sftp, host: h, user: u, path: a',
      'id: b, backend: sftp, host: h, user: v, path: a',
    ),
    [],
  );
  t.same(
    destinations(
      'id: a, backend: s3, bucket: b, prefix: x',
      'id: b, backend: s3, bucket: b, prefix: x/',
      'id: c, backend: s3, bucket: b, prefix: y',
      'id: d, backend: s3, bucket: b, prefix: x, endpoint: "https://h"',
    ),
    [`same_location ${at(1, 'bucket')}`],
  );
  for (const path of ['in', 'in/sub', '.', '/etc'])
    t.same(
      destinations(`id: a, backend: local, path: ${path}`),
      [`overlapping_locations ${at(0, 'path')}`],
      path,
    );
  t.same(
    destinations('id: a, backend: local, path: inn'),
    [],
    'a common prefix of the names is not an overlap',
  );
});

t.test('places that are the same or nested through symbolic links are refused', async (t) => {
  const place = t.testdir({ site: { pub: {} }, 'c.yml': '' });
  await symlink('site', join(place, 'linked'));
  await symlink('site/pub', join(place, 'nested'));
  const codes = async (text: string): Promise<string[]> => {
    await writeFile(join(place, 'c.yml'), text);
    const loaded = loadConfig(join(place, 'c.yml'), { home: homedir() });
    return loaded.then(
      () => [],
      (error: unknown) => (error as WaybillError).findings.map(({ code }) => code),
    );
  };
  const pipeline = (source: string, ...destinations: string[]): string =>
    `pipelines: [{ id: p, source: { backend: local, path: ${source} }, destinations: [${destinations
      .map((path, index) => `{ id: d${index}, backend: local, path: ${path} }`)
      .join(', ')}] }]`;
  t.same(await codes(pipeline('site', 'nested')), ['overlapping_locations']);
  t.same(await codes(pipeline('site', 'linked/new/one')), ['overlapping_locations']);
  t.same(await codes(pipeline('nested', 'site')), ['overlapping_locations']);
  t.same(await codes(pipeline('other', 'site', 'linked')), ['same_location']);
  t.same(await codes(pipeline('site', 'linked-not')), []);
  const queue = 'queue: { driver: embedded, directory: linked/queue }';
  const server = `server: { staging: { directory: site }, ${queue} }`;
  t.same(await codes(`${server}\n${pipeline('in', 'out')}`), ['overlapping_locations']);
});

t.test('questionable but valid settings are warnings', async (t) => {
  t.match(parse('pipelines: []').warnings, [{ severity: 'warning', code: 'no_pipelines' }]);
  const { config, warnings } = parse(
    'pipelines:\n  - id: p\n    source: {backend: http_upload}\n    destinations: [{id: d, backend: local, path: x}]\n',
  );
  t.match(warnings, [
    { severity: 'warning', code: 'upload_token_missing', pointer: 'pipelines[0].id', line: 2, column: 9 },
  ]);
  t.equal(config.pipelines.length, 1);
});

t.test('never repeats a possible secret', async (t) => {
  const secret = 'hunter2-S3cr3t/Token+0123456789';
  const places = [
    `secrets: "${secret}"`,
    `upload_tokens: ["${secret}"]`,
    `upload_tokens: "${secret}"`,
    `upload_tokens: [{id: "${secret}", value_env: "${secret}", value: "${secret}", pipelines: ["${secret}"]}]`,
    `pipelines: ["${secret}"]`,
    `unknown: "${secret}"`,
    `server: {queue: {driver: bullmq, redis_url_env: "redis://:${secret}@h"}}`,
    `server: {queue: "${secret}"}`,
    withDestination(`backend: sftp, host: h, user: u, path: /x, password: "${secret}"`),
    withDestination(`backend: sftp, host: h, user: u, path: /x, ssh_key_passphrase_env: "${secret}"`),
    withDestination(
      `backend: sftp, host: h, user: u, path: /x, ssh_key_file: "-----BEGIN OPENSSH PRIVATE KEY-----\\n${secret}"`,
    ),
    withDestination(`backend: sftp, host: "u:${secret}@h", user: "u:${secret}", path: /x`),
    withDestination(
      `backend: s3, bucket: b, access_key_id_env: "${secret}", secret_access_key_env: "${secret}"`,
    ),
    withDestination(
      `backend: s3, bucket: "${secret}", region: "${secret}", endpoint: "https://k:${secret}@h"`,
    ),
    withDestination(`backend: local, path: x, public_base_url: "https://u:${secret}@h/"`),
    `a: *${secret}`,
    `a: !${secret} 1`,
    `a: "${secret}\nb: 1`,
    `a: %${secret}`,
    `a: @${secret}`,
    `password: ${secret}: ${secret}`,
  ];
  for (const text of places) {
    const complaints = complaintsOf(text).join('\n');
    t.notMatch(complaints, 'hunter2', text.slice(0, 60));
    t.notMatch(complaints, 'S3cr3t', text.slice(0, 60));
  }
});

t.test('an out-of-range number is shown, whatever other errors its map has', (t) => {
  const url = 'postgres://u:hunter2@h/x';
  const cases: [text: string, shown: RegExp[]][] = [
    [
      `databases: [{name: a, driver: postgres, url_env: "${url}", pool_size: 0, statement_timeout: 5}]`,
      [
        /pool_size: found the number 0; expected a whole/,
        /statement_timeout: found the number 5; expected a/,
      ],
    ],
    [
      `weather: {cache: 5x, deadline: 12d, feed: {url_env: "${url}", nws: {user_agent: "a@b", concurrency: 99, max_body: 3}}}`,
      [
        /cache: found the text "5x"; expected a duration/,
        /deadline: found the text "12d": it is more than/,
        /concurrency: found the number 99;/,
        /max_body: found the number 3;/,
      ],
    ],
    // A number may be replaced by text, and text by a number.
    [
      `server: {queue: {driver: bullmq, redis_url_env: 123456789, max_waiting: "hunter2"}}`,
      [/redis_url_env: found the number \(not shown: it may be a secret\)/],
    ],
    [
      `databases: [{name: a, driver: postgres, url_env: A, pool_size: "hunter2-S3cr3t"}]`,
      [/pool_size: found the text \(not shown: it may be a secret\)/],
    ],
  ];
  for (const [text, shown] of cases) {
    const complaints = complaintsOf(text).join('\n');
    for (const pattern of shown) t.match(complaints, pattern);
    t.notMatch(complaints, /hunter2@|S3cr3t|123456789/);
  }
  t.end();
});

t.test('reports the line of invalid YAML or UTF-8', async (t) => {
  const bad: [text: string | Uint8Array, line: number, message: RegExp][] = [
    ['', 1, /empty/],
    ['# nothing\n', 1, /empty/],
    ['---\n', 1, /empty/],
    ['pipelines:\n\t- id: a\n', 2, /indented with a tab/],
    ['pipelines: []\n---\npipelines: []\n', 2, /second document/],
    ['pipelines: [\n', 1, /this "\[" is never closed; add "\]"/],
    ['secrets: {directory: "x}\n', 1, /no closing double quote/],
    ['a: b: c\n', 1, /spans|nested map/],
    [Buffer.from('pipelines: []\n# caf\xe9\n', 'latin1'), 2, /not UTF-8/],
    [Buffer.from('\ufeffpipelines: []\n', 'utf16le'), 1, /UTF-16/],
    ['a: 1\nb: \0\n', 2, /NUL/],
    ['? [a]\n: 1\n', 1, /keys are plain text/],
    ['pipelines: *missing\n', 1, /must be in quotes/],
    ['pipelines: !!js/function x\n', 1, /tag/],
    [`a: ${'['.repeat(50_000)}`, 1, /nested/],
    [`a: ${'['.repeat(70)}${']'.repeat(70)}`, 1, /nested/],
    ['['.repeat(50_000), 1, /nested/],
    [`${'- '.repeat(50_000)}x`, 1, /nested/],
    ['a: &a [*a]\n', 1, /contains it/],
    ['a: 1\nb: &b {c: [{d: *b}]}\n', 2, /contains it/],
    [
      `a: &a [x, x, x, x, x, x, x, x, x]\n${['b', 'c', 'd', 'e', 'f', 'g', 'h']
        .map(
          (name, index) =>
            `${name}: &${name} [${Array(9)
              .fill(`*${'abcdefgh'.charAt(index)}`)
              .join()}]\n`,
        )
        .join('')}`,
      1,
      /aliases/,
    ],
    ['__proto__: {pipelines: []}\n', 1, /unknown key/],
  ];
  for (const [text, line, message] of bad)
    t.match(findingsOf(text)[0], { line, message }, JSON.stringify(text.slice(0, 30)));
});

t.test('reports duplicate keys together with other errors', async (t) => {
  t.same(complaintsOf(`pipelines: 1\nserver: {}\nserver: {htp: 1}\n`), [
    'c.yml:1:12 pipelines: found the number 1; expected a list of pipelines'.replace(
      'the number 1;',
      'the number 1;',
    ),
    'c.yml:3:1 server is already set on line 2; merge the two, or remove one',
    'c.yml:3:10 server.htp: unknown key; did you mean "http"?',
  ]);
});

t.test('accepts a byte order mark, anchors and aliases', async (t) => {
  t.equal(parse(`\ufeff${minimal}`).config.pipelines.length, 1);
  const text = `pipelines:
  - {id: a, source: {backend: local, path: in}, destinations: [{id: d, backend: local, path: out, outputs: &all {index: true}}]}
  - {id: b, source: {backend: local, path: in}, destinations: [{id: d, backend: local, path: out, outputs: *all}]}
`;
  t.ok(parse(text).config.pipelines[1]?.destinations[0]?.outputs.index);
  const [inAnchor, inAlias] = findingsOf(text.replace('index', 'indexx'));
  t.match(
    [inAnchor, inAlias],
    [{ line: 2 }, { line: 2, pointer: 'pipelines[1].destinations[0].outputs.indexx' }],
    'an error in an anchor is reported at the anchor',
  );
  t.match(complaintsOf(`${minimal}\nsecrets:\n  <<: {directory: x}\n`), [/merge keys/]);
});

t.test('reports keys that no backend has if the backend is missing', async (t) => {
  const complaints = (changed: string): string[] =>
    complaintsOf(`pipelines:
  - {id: a, ${changed}, destinations: [{id: d, backend: local, path: out}]}
`).map((text) => text.replace(/^.*?pipelines/, 'pipelines'));
  const missing = 'pipelines[0].source.backend is missing; expected one of local, sftp, s3, http_upload';
  t.same(complaints('source: {path: in, host: a}'), [missing], 'each key belongs to a backend');
  t.same(complaints('source: {bakend: local, path: in}'), [
    missing,
    'pipelines[0].source.bakend: unknown key; did you mean "backend"?',
  ]);
  t.match(complaints('source: {<<: {backend: local}, path: in}'), [
    missing,
    /merge keys .* are not supported/,
  ]);
});

t.test('reports the length of a text that is too long', async (t) => {
  const path = 'x/'.repeat(3000);
  t.match(complaintsOf(minimal.replace('path: ./out', `path: ${path}`)), [
    /path: found a text of 6000 characters, more than the maximum of 4096; expected the path of a file/,
  ]);
});

t.test('a file with a hundred thousand errors is still reported', async (t) => {
  const lines = Array.from({ length: 150_000 }, (_, index) => `k${index}: 1\n`).join('');
  t.match(findingsOf(lines)[0], { code: 'unknown_key', line: 1 });
});

t.test('paths of keys are unambiguous', async (t) => {
  t.equal(keyPath(['pipelines', 0, 'destinations', 1, 'path']), 'pipelines[0].destinations[1].path');
  t.equal(keyPath(['a', 'b.c\n']), 'a["b.c\\n"]');
  t.equal(keyPath([]), '');
});

t.test('an unreadable file is config_unreadable, and an oversized one is not read', async (t) => {
  const directory = t.testdir({});
  const load = (file: string) => failure(loadConfig(file, { home: '/home/me' }));
  t.match(await load(join(directory, 'none.yml')), {
    code: 'config_unreadable',
    message: /none\.yml cannot be read: the file does not exist/,
    hint: /--config/,
  });
  await mkdir(join(directory, 'sub'));
  t.match(await load(join(directory, 'sub')), { code: 'config_unreadable', message: /is a directory/ });
  await writeFile(join(directory, 'big.yml'), '#'.repeat(4 * 1024 * 1024 + 1));
  t.match(await load(join(directory, 'big.yml')), {
    code: 'config_invalid',
    findings: [{ message: /larger than 4 MiB/ }],
  });
  await writeFile(join(directory, 'limit.yml'), `${minimal}\n`.padEnd(4 * 1024 * 1024, '#'));
  t.equal((await loadConfig(join(directory, 'limit.yml'), { home: '/' })).config.pipelines.length, 1);
});

t.test('a file without read permission is config_unreadable', async (t) => {
  const directory = t.testdir({ 'c.yml': minimal });
  const file = join(directory, 'c.yml');
  await chmod(file, 0o000);
  // The superuser can read it anyway. Every user must see these two effects and no others.
  if (process.getuid?.() === 0) t.equal((await loadConfig(file, { home: '/' })).config.pipelines.length, 1);
  else
    t.match(await failure(loadConfig(file, { home: '/' })), {
      code: 'config_unreadable',
      message: /permission denied/,
    });
});

t.test('findings name the file as it was given, and the configuration has its absolute path', async (t) => {
  const directory = t.testdir({ 'good.yml': minimal, 'bad.yml': 'pipelinez: []' });
  const given = (name: string) => relative(process.cwd(), join(directory, name));
  const { config } = await loadConfig(given('good.yml'), { home: '/home/me' });
  t.equal(config.file, join(directory, 'good.yml'));
  t.match(config.pipelines[0]?.destinations[0]?.location, { path: join(directory, 'out') });
  const error = await failure(loadConfig(given('bad.yml'), { home: '/home/me' }));
  t.match(error, { code: 'config_invalid', hint: /waybill config check --config/ });
  t.match(error.findings, [
    { severity: 'error', code: 'unknown_key' },
    { severity: 'warning', code: 'no_pipelines' },
  ]);
  t.equal(error.findings[0]?.file, given('bad.yml'));
});

t.test('stale: by default only uploads to a fixed destination are rejected', async (t) => {
  const source = { upload: 'backend: http_upload', local: 'backend: local, path: ./in' };
  for (const [from, settings, expected] of [
    [source.upload, 'mapping: fixed', 'refuse'],
    [source.upload, '', 'publish'],
    [source.local, 'mapping: fixed', 'publish'],
    [source.upload, 'mapping: fixed, stale: publish', 'publish'],
    [source.local, 'stale: refuse', 'refuse'],
  ] as const) {
    const text = `pipelines: [{id: p, source: {${from}}, destinations: [{id: d, backend: local, path: ./out, ${settings}}]}]`;
    t.equal(parse(text).config.pipelines[0]?.destinations[0]?.stale, expected, `${from}, ${settings}`);
  }
});

t.test('orphans: settings other than keep require a listed source and preserved paths', async (t) => {
  const source = { upload: 'backend: http_upload', local: 'backend: local, path: ./in' };
  const destination = (from: string, settings: string) =>
    `pipelines: [{id: p, source: {${from}}, destinations: [{id: d, backend: local, path: ./out, ${settings}}]}]`;
  for (const [settings, expected] of [
    ['', 'keep'],
    ['orphans: report', 'report'],
    ['orphans: remove', 'remove'],
    ['orphans: keep, mapping: fixed', 'keep'],
  ] as const)
    t.equal(
      parse(destination(source.local, settings)).config.pipelines[0]?.destinations[0]?.orphans,
      expected,
      settings,
    );
  for (const [from, settings, message] of [
    [source.local, 'mapping: fixed, orphans: remove', /must be keep, or left out, because mapping fixed/],
    [source.local, 'mapping: fixed, orphans: report', /mapping fixed/],
    [source.upload, 'orphans: remove', /must be keep, or left out, because waybill cannot list the bundles/],
  ] as const)
    t.match(
      findingsOf(destination(from, settings)).filter(({ severity }) => severity === 'error'),
      [{ code: 'invalid_value', pointer: 'pipelines[0].destinations[0].orphans', message }],
      `${from}, ${settings}`,
    );
  const kept = parse(destination(source.upload, 'orphans: keep')).config;
  t.equal(kept.pipelines[0]?.destinations[0]?.orphans, 'keep', 'also for uploads');
});

t.test('the identity of a source is its location, the pipeline for uploads, or its id', async (t) => {
  for (const [source, expected] of [
    ['backend: local, path: ./in', '/etc/waybill/in'],
    ['backend: local, path: ./in, id: maps of CI', 'maps of CI'],
    ['backend: s3, bucket: b, prefix: in', 's3://b/in/'],
    ['backend: s3, bucket: b, id: ci', 'ci'],
    ['backend: sftp, host: h, user: u, path: /in, id: ci', 'ci'],
    ['backend: http_upload', 'p'],
  ] as const) {
    const text = `pipelines: [{id: p, source: {${source}}, destinations: [{id: d, backend: local, path: ./out}]}]`;
    t.equal(parse(text).config.pipelines[0]?.sourceId, expected, source);
  }
  const refused = (source: string): string[] =>
    complaintsOf(
      `pipelines: [{id: p, source: {${source}}, destinations: [{id: d, backend: local, path: ./out}]}]`,
    );
  t.match(refused('backend: http_upload, id: x'), [/id/], 'uploads belong to their pipeline');
  t.match(refused('backend: local, path: ./in, id: ""'), [/id/]);
});

t.test('scheduled runs: settings, defaults, and rejected values with a hint', async (t) => {
  const source = {
    upload: 'backend: http_upload',
    local: 'backend: local, path: ./in',
    sftp: 'backend: sftp, host: h, user: u, path: x',
  };
  const pipeline = (from: string, settings: string) =>
    `pipelines: [{id: p, source: {${from}}, ${settings}, destinations: [{id: d, backend: local, path: ./out}]}]`;
  const none = { schedule: null, watch: null };
  const hourly = { cron: '@hourly', timezone: 'UTC', catchUp: 'none', jitterMs: 0 };
  for (const [from, settings, expected] of [
    [source.local, 'watch: false', none],
    [source.upload, 'watch: false', none],
    [source.sftp, 'schedule: "@hourly"', { schedule: hourly, watch: null }],
    [
      source.local,
      'schedule: "30 2 * * MON-FRI", timezone: Europe/Berlin, catch_up: once, jitter: 5m, watch: true, settle: 500ms',
      {
        schedule: { cron: '30 2 * * MON-FRI', timezone: 'Europe/Berlin', catchUp: 'once', jitterMs: 300_000 },
        watch: { settleMs: 500 },
      },
    ],
    [source.local, 'watch: true', { schedule: null, watch: { settleMs: 2_000 } }],
  ] as const) {
    const { schedule, watch } = parse(pipeline(from, settings)).config.pipelines[0] ?? none;
    t.same({ schedule, watch }, expected, settings);
  }
  for (const [from, settings, key, message] of [
    [
      source.local,
      'schedule: "*/15 * * *"',
      'schedule',
      /five fields.*expected five fields of cron.*such as "\*\/15 \* \* \* \*"/,
    ],
    [source.local, 'schedule: "* * * * * *"', 'schedule', /five fields/],
    [source.local, 'schedule: "61 * * * *"', 'schedule', /invalid value for minute: 61.*such as/],
    [source.local, 'schedule: "0 0 31 2 *"', 'schedule', /it matches no date/],
    [
      source.local,
      'schedule: "@hourly", timezone: Mars/Base',
      'timezone',
      /no such time zone.*such as Europe\/Berlin/,
    ],
    [source.local, 'schedule: "@hourly", catch_up: twice', 'catch_up', /one of none, once/],
    [source.local, 'schedule: "@hourly", jitter: 2h', 'jitter', /more than 1h/],
    [
      source.upload,
      'schedule: "@hourly"',
      'schedule',
      /runs start when an upload arrives; leave schedule out/,
    ],
    [source.upload, 'watch: true', 'watch', /leave watch out/],
    [source.sftp, 'watch: true', 'watch', /only a source with backend: local.*this is sftp; use schedule/],
    [source.local, 'timezone: UTC', 'timezone', /schedule, which is not set/],
    [source.local, 'catch_up: once', 'catch_up', /schedule, which is not set/],
    [source.local, 'jitter: 1m', 'jitter', /schedule, which is not set/],
    [source.local, 'settle: 1s', 'settle', /watch, which is not set/],
    [source.local, 'watch: false, settle: 1s', 'settle', /watch, which is not set/],
  ] as const)
    t.match(
      findingsOf(pipeline(from, settings)).filter(({ severity }) => severity === 'error'),
      [{ code: 'invalid_value', pointer: `pipelines[0].${key}`, message }],
      settings,
    );
});

t.test('a mode is three octal digits, as a number or as text', async (t) => {
  const modesOf = (backend: string, file: string): unknown =>
    parse(withDestination(`${backend}, file_mode: ${file}, directory_mode: "0750"`)).config.pipelines[0]
      ?.destinations[0]?.location;
  for (const backend of ['backend: local, path: out', 'backend: sftp, host: h, user: u, path: p'])
    for (const file of ['640', '"640"', '"0640"'])
      t.match(modesOf(backend, file), { modes: { file: 0o640, directory: 0o750 } }, file);
});

for (const [settings, complaint] of [
  ['backend: local, path: out, file_mode: 0o644', 'found the number 420'],
  ['backend: local, path: out, file_mode: 666', 'found the number 666'],
  ['backend: local, path: out, file_mode: 689', 'found the number 689'],
  ['backend: local, path: out, directory_mode: 655', 'found the number 655'],
  ['backend: s3, bucket: b, file_mode: 644', 'only local and SFTP destinations have modes'],
] as const)
  t.test(`rejects ${settings}`, async (t) => {
    t.match(JSON.stringify(complaintsOf(withDestination(settings))), complaint);
  });
