import { local, type Mistake, s3, to } from './mistake.ts';

const pipeline = (source: string, more: string): string => `pipelines:
  - id: maps
    source: {${source}}
    ${more}
    destinations: [{id: web, ${local}}]
`;

/** Errors in the file itself, as `waybill config check` reports them. */
export const inConfiguration: Mistake[] = [
  { name: 'no such configuration', place: 'c.yml', remedy: 'waybill init' },
  {
    name: 'a directory as configuration',
    args: ['config', 'check', '-c', 'conf'],
    files: { 'conf/c.yml': '' },
    place: 'conf',
    remedy: 'the file in that directory',
  },
  { name: 'empty', config: '# nothing yet\n', place: 'c.yml', remedy: 'waybill init' },
  {
    name: 'UTF-16',
    files: { 'c.yml': Buffer.from('\ufeffpipelines: []', 'utf16le') },
    place: 'c.yml:1:1',
    remedy: 'save it as UTF-8',
  },
  {
    name: 'a tab as indentation',
    config: 'pipelines:\n\t- id: maps\n',
    place: 'c.yml:2:1',
    remedy: 'only spaces',
  },
  {
    name: 'a key too far to the left',
    config: 'pipelines:\n  - id: maps\n   source: {backend: local, path: ./source}\n',
    place: 'c.yml:3',
    remedy: 'the line is indented by',
  },
  {
    name: 'a key too far to the right',
    config: 'server:\n  http:\n    listen: 127.0.0.1:8080\n      base_path: /x/\n',
    place: 'c.yml:4:1',
    remedy: 'the line is indented by',
  },
  {
    name: 'a list item too far to the left',
    config: 'pipelines:\n  - id: maps\n    destinations:\n     - id: a\n    - id: b\n',
    place: 'c.yml:5',
    remedy: 'the line is indented by',
  },
  {
    name: 'no space after the colon',
    config: 'server:\n  http:\n    listen:x\n',
    place: 'c.yml:3',
    remedy: 'there is no space after the colon',
  },
  {
    name: 'a quote that is not closed',
    config: to('backend: local, path: "./web'),
    place: 'c.yml:5:41',
    remedy: 'closing double quote',
  },
  {
    name: 'a brace that is not closed',
    config: 'server: {http: {listen: "127.0.0.1:1"}\n',
    place: 'c.yml',
    remedy: '}',
  },
  { name: 'a duplicate key', config: `${to(local)}pipelines: []\n`, place: 'c.yml:6:1', remedy: 'line 1' },
  { name: 'two documents', config: `${to(local)}---\na: 1\n`, place: 'c.yml:6', remedy: '---' },
  {
    name: 'text that begins with *',
    config: to('backend: local, path: *.html'),
    place: 'c.yml:5',
    remedy: 'quotes',
  },
  {
    name: 'a mistyped key',
    config: to(`${local}, maping: fixed`),
    place: 'destinations[0].maping',
    remedy: 'mapping',
  },
  {
    name: 'a key of another section',
    config: to(`${local}, compress: true`),
    place: 'destinations[0].compress',
    remedy: 'the keys here are',
  },
  {
    name: 'no source',
    config: 'pipelines:\n  - id: maps\n    destinations: []\n',
    place: 'pipelines[0].source',
    remedy: 'expected',
  },
  {
    name: 'no destinations',
    config: 'pipelines:\n  - id: maps\n    source: {backend: local, path: ./s}\n',
    place: 'pipelines[0].destinations',
    remedy: 'expected',
  },
  {
    name: 'an unknown backend',
    config: to('backend: ftp, path: ./web'),
    place: 'destinations[0].backend',
    remedy: 'local, sftp, s3',
  },
  {
    name: 'an unknown mapping',
    config: to(`${local}, mapping: fix`),
    place: 'mapping',
    remedy: 'fixed',
  },
  {
    name: 'an invalid port',
    config: to('backend: sftp, host: h, user: u, path: p, port: 70000'),
    place: 'port',
    remedy: '65535',
  },
  {
    name: 'a port with the host',
    config: to('backend: sftp, host: "h:22", user: u, path: p'),
    place: 'host',
    remedy: 'port: 22',
  },
  {
    name: 'a duration without a unit',
    config: to(local, 'server: {http: {upload_timeout: 30}}\n'),
    place: 'server.http.upload_timeout',
    remedy: '30s',
  },
  {
    name: 'a size in words',
    config: to(local, '', 'backend: http_upload, max_upload_size: 512 megs'),
    place: 'max_upload_size',
    remedy: '512MiB',
  },
  {
    name: 'a password',
    config: to('backend: sftp, host: h, user: u, path: p, password: hunter2'),
    place: 'destinations[0].password',
    remedy: 'ssh_key_file',
  },
  {
    name: 'the token itself',
    config: to(local, 'upload_tokens: [{id: ci, value: hunter2, pipelines: [maps]}]\n'),
    place: 'upload_tokens[0].value',
    remedy: 'value_env',
  },
  {
    name: 'an S3 key as the name of a variable',
    config: to('backend: s3, bucket: maps, access_key_id: AKIAEXAMPLE'),
    place: 'destinations[0].access_key_id',
    remedy: 'access_key_id_env',
  },
  {
    name: 'only one of the two S3 keys',
    config: to('backend: s3, bucket: maps, region: eu-1, access_key_id_env: KEY'),
    place: 'secret_access_key_env',
    remedy: 'set both',
  },
  {
    name: 'an id in capitals',
    config: to(local).replace('id: maps', 'id: Maps'),
    place: 'pipelines[0].id',
    remedy: 'lower-case',
  },
  {
    name: 'two pipelines with one id',
    config: `${to(local)}${to(local).replace('pipelines:\n', '')}`,
    place: 'pipelines[1].id',
    remedy: 'different id',
  },
  {
    name: 'two destinations with one id',
    config: `${to(local)}      - {id: web, backend: local, path: ./b}\n`,
    place: 'destinations[1].id',
    remedy: 'different id',
  },
  {
    name: 'two destinations at one place',
    config: `${to(local)}      - {id: b, backend: local, path: web/}\n`,
    place: 'destinations[1].path',
    remedy: 'its own',
  },
  {
    name: 'a destination in the source',
    config: to('backend: local, path: ./source/out'),
    place: 'destinations[0].path',
    remedy: 'choose separate locations',
  },
  {
    name: 'a token for an unknown pipeline',
    config: to(local, 'upload_tokens: [{id: ci, value_env: T, pipelines: [map]}]\n'),
    place: 'upload_tokens[0].pipelines[0]',
    remedy: 'maps',
  },
  {
    name: 'an upload source without tokens',
    config: to(local, '', 'backend: http_upload'),
    place: 'pipelines[0].id',
    remedy: 'upload_tokens',
  },
  {
    name: 'a variable in a path',
    config: to('backend: local, path: $HOME/public'),
    place: 'destinations[0].path',
    remedy: '~/',
  },
  {
    name: 'a variable in braces in a path',
    config: to(local, '', "backend: local, path: '${SITE}/in'"),
    place: 'source.path',
    remedy: 'not expanded',
  },
  {
    name: "a path in another user's home",
    config: to('backend: local, path: ~www/public'),
    place: 'destinations[0].path',
    remedy: '~/',
  },
  {
    name: 'an invalid schedule pattern',
    config: pipeline('backend: local, path: ./s', 'schedule: "61 * * * *"'),
    place: 'schedule',
    remedy: 'minute',
  },
  {
    name: 'an unknown time zone',
    config: pipeline('backend: local, path: ./s', 'schedule: "@daily"\n    timezone: Europe/Berlinn'),
    place: 'timezone',
    remedy: 'Europe/Berlin',
  },
  {
    name: 'a watch on uploads',
    config: pipeline('backend: http_upload', 'watch: true'),
    place: 'watch',
    remedy: 'leave watch out',
  },
  {
    name: 'orphans of uploads',
    config: to(`${local}, orphans: remove`, '', 'backend: http_upload'),
    place: 'orphans',
    remedy: 'must be keep',
  },
  { name: 'an endpoint without https', config: s3('s3.example.org'), place: 'endpoint', remedy: 'https://' },
  {
    name: 'listening on a port alone',
    config: to(local, 'server: {http: {listen: 8080}}\n'),
    place: 'server.http.listen',
    remedy: '127.0.0.1:8080',
  },
  {
    name: 'merge keys',
    config: to('<<: &x {backend: local}, backend: local, path: ./web'),
    place: 'destinations[0]["<<"]',
    remedy: 'repeat the keys',
  },
  {
    name: 'yes for true',
    config: to(`${local}, outputs: {index: yes}`),
    place: 'outputs.index',
    remedy: 'true, false or auto',
  },
  {
    name: 'pruning without a limit',
    config: to(`${local}, retention: {prune: {enabled: true}}`),
    place: 'retention.prune',
    remedy: 'keep_latest',
  },
  {
    name: 'a queue within staging',
    config: to(local, 'server: {staging: {directory: ./s}, queue: {driver: embedded, directory: ./s/q}}\n'),
    place: 'server.queue',
    remedy: 'choose separate directories',
  },
  {
    name: 'a secret as the name of a variable',
    config: to(local, 'upload_tokens: [{id: ci, value_env: "b3BlbiBzZXNhbWU=", pipelines: [maps]}]\n'),
    place: 'upload_tokens[0].value_env',
    remedy: 'never the secret value itself',
  },
  { name: 'nothing to publish', config: 'server: {}\n', place: 'pipelines', remedy: 'waybill init' },
];
