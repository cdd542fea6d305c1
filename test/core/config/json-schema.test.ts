import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import t from 'tap';
import { parse as parseYaml } from 'yaml';
import { configReference, withReference } from '../../../scripts/config-reference.ts';
import { configJsonSchema } from '../../../src/core/config/json-schema.ts';
import type { JsonSchema } from '../../../src/core/lib/parameters.ts';
import { findingsOf, parse, withDestination, withHttp } from './parse.ts';

const schema = configJsonSchema();
const validate = new Ajv({
  strict: true,
  allErrors: true,
  verbose: true,
  // Editors show this text instead of the pattern.
  keywords: ['patternErrorMessage'],
}).compile(schema);
const accepts = (text: string): boolean => validate(parseYaml(text));

/** Every setting's schema, by its name. */
function* settings(node: unknown): Generator<[name: string, schema: JsonSchema]> {
  if (Array.isArray(node)) for (const item of node) yield* settings(item);
  else if (typeof node === 'object' && node !== null)
    for (const [key, value] of Object.entries(node)) {
      if (key === 'properties') yield* Object.entries(value as Record<string, JsonSchema>);
      yield* settings(value);
    }
}

t.test('the schema in the repository is up to date', async (t) => {
  t.same(JSON.parse(readFileSync('schemas/config.schema.json', 'utf8')), schema, 'run "npm run generate"');
});

t.test('an editor shows a description of a value, not its pattern', async (t) => {
  const said = (text: string): unknown[] => {
    validate(parseYaml(text));
    return (validate.errors ?? [])
      .filter(({ keyword }) => keyword === 'pattern')
      .map(({ parentSchema }) => (parentSchema as JsonSchema)['patternErrorMessage']);
  };
  t.match(said(withHttp('upload_timeout: 30x')), [
    /whole number with a unit, such as 500ms.*; here from 1s to/,
  ]);
  t.match(said('pipelines: [{id: Maps}]'), [/lower-case letters/]);
  for (const [name, { pattern, title, patternErrorMessage }] of settings(schema))
    if (
      pattern !== undefined &&
      typeof title === 'string' &&
      /^(duration|size|id|path|variable name)/.test(title)
    )
      t.type(patternErrorMessage, 'string', name);
  t.equal(schema['$id'], 'urn:waybill:config');
});

t.test('the reference in the documentation is up to date', async (t) => {
  const page = readFileSync('docs/configuration.md', 'utf8');
  t.equal(await withReference(page, configReference(schema)), page, 'run "npm run generate"');
});

t.test('every setting is described in the reference and in the complete example', async (t) => {
  const page = readFileSync('docs/configuration.md', 'utf8');
  const example = readFileSync('examples/config/full.yml', 'utf8');
  const all = new Map(settings(schema));
  t.ok(all.size > 50, 'there are settings');
  for (const [name, setting] of settings(schema)) {
    t.match(setting['description'], /^[A-Z].{15,}[.)]$/, `${name} has a sentence`);
    if (name === 'glob') t.match(page, '{glob: PATTERN}', 'described with the claims');
    else {
      // A heading, a choice between kinds, or a row. Rows of small maps have dotted names.
      const places = [
        `^### \`([\\w<>.[\\]]*\\.)?${name}(\\[\\])?\`$`,
        `^\`${name}\` \\((required|default)`,
        `^\\| \`([\\w<>]+\\.)*${name}(\\.[\\w<>]+)*\`( _\\w+_)* +\\|`,
      ];
      t.match(page, new RegExp(places.join('|'), 'm'), `${name} is in the reference`);
    }
    t.match(example, new RegExp(`\\b${name}:`), `${name} is in the example`);
  }
});

t.test('every map rejects unknown keys', async (t) => {
  const maps = JSON.stringify(schema).match(/"type":"object"/g)?.length;
  t.equal(JSON.stringify(schema).match(/"additionalProperties":false/g)?.length, maps);
});

t.test('the schema accepts every configuration that waybill accepts', async (t) => {
  for (const text of [
    readFileSync('examples/config/full.yml', 'utf8'),
    withDestination('backend: local, path: ./out'),
    withDestination('backend: sftp, host: h, user: u, path: x, host_key_policy: off'),
    withDestination('backend: s3, bucket: b, prefix: "", path_style: false, allow_bucket_root: true'),
    withDestination('backend: local, path: x, retention: {prune: {enabled: true, older_than: 7d}}'),
    withHttp('listen: "[::1]:0", trusted_proxies: [], retention: 500s, protect_runs: true'),
    'pipelines: [{id: p, source: {backend: http_upload, max_upload_size: 1024}, destinations: [{id: d, backend: local, path: x}]}]',
    'server: {queue: {driver: bullmq, redis_url_env: R}}',
  ]) {
    t.ok(parse(text.replace('/srv/restore', './restore')), text.slice(0, 120));
    t.ok(accepts(text), `${text.slice(0, 120)} ${JSON.stringify(validate.errors)}`);
  }
});

t.test('the schema rejects what waybill rejects for its structure', async (t) => {
  for (const text of [
    '[]',
    'unknown: 1',
    'pipelines: {}',
    'pipelines: [{id: p}]',
    'pipelines: [{id: P, source: {backend: local, path: x}, destinations: [{id: d, backend: local, path: y}]}]',
    'pipelines: [{id: p, source: {backend: local, path: x}, destinations: []}]',
    'pipelines: [{id: p, source: {backend: ftp, path: x}, destinations: [{id: d, backend: local, path: y}]}]',
    'pipelines: [{id: p, source: {path: x}, destinations: [{id: d, backend: local, path: y}]}]',
    'pipelines: [{id: p, source: {backend: http_upload, max_upload_size: 512M}, destinations: [{id: d, backend: local, path: y}]}]',
    'pipelines: [{id: p, source: {backend: http_upload, max_files: 0}, destinations: [{id: d, backend: local, path: y}]}]',
    withDestination('backend: local'),
    withDestination('backend: local, path: 1'),
    withDestination('backend: local, path: x, bucket: b'),
    withDestination('backend: http_upload'),
    withDestination('backend: sftp, host: h, user: u, path: x, password: p'),
    withDestination('backend: sftp, host: h, user: u, path: x, port: 65536'),
    withDestination('backend: s3, bucket: b, access_key_id_env: K'),
    withDestination('backend: s3, bucket: b, access_key_id_env: "not a name", secret_access_key_env: S'),
    withDestination('backend: local, path: x, mapping: flat'),
    withDestination('backend: local, path: x, outputs: {checksums: "true"}'),
    withDestination('backend: local, path: x, retention: {prune: {keep_latest: 1.5}}'),
    withDestination('backend: local, path: x, file_concurrency: 65'),
    withDestination('backend: local, path: x, max_rate: 2 MiB/s'),
    withDestination('backend: local, path: x, max_rate: 100'),
    withHttp('retention: 30'),
    withHttp('retention: "30"'),
    withHttp('queue_size: "32"'),
    withHttp('trusted_proxies: loopback'),
    'server: {queue: {}}',
    'server: {queue: {driver: bullmq}}',
    'server: {queue: {driver: memory, prefix: x}}',
    'upload_tokens: [{id: ci, value_env: T, pipelines: []}]',
    'upload_tokens: [{id: ci, value: T, pipelines: [p]}]',
    'secrets: ./secrets',
  ]) {
    t.ok(
      findingsOf(text).some(({ severity }) => severity === 'error'),
      text,
    );
    t.notOk(accepts(text), text);
  }
});
