import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import ts from 'typescript';
import { bundlePrograms } from '../../../scripts/support/bundle-programs.ts';
import { backends } from '../../../src/core/storage/backends.ts';

/**
 * A new backend needs one folder and one line in `backends.ts`. Both are added to a copy of the program, and
 * nothing else is changed.
 */
const fixture = path.resolve('test/fixtures/backends/shelf');
const copy = t.testdir();
const inCopy = (file: string): string => path.join(copy, file);
const folder = inCopy('src/core/storage/shelf');
const list = inCopy('src/core/storage/backends.ts');
const withoutLine = readFileSync('src/core/storage/backends.ts', 'utf8');
const withLine = withoutLine
  .replace(/^(?=import \{ localBackend)/m, "import { shelfBackend } from './shelf/shelf-backend.ts';\n")
  .replace(/^( *)local: localBackend,\n/m, '$&$1shelf: shelfBackend,\n');

for (const part of ['src', 'templates', 'schemas', 'package.json', 'test/contract', 'test/support'])
  cpSync(part, inCopy(part), { recursive: true });
mkdirSync(folder);
for (const file of readdirSync(fixture))
  writeFileSync(path.join(folder, file), moved(readFileSync(path.join(fixture, file), 'utf8')));
writeFileSync(list, withLine);

/** The fixture's imports, as they are in `src/core/storage/shelf`. */
function moved(text: string): string {
  return text
    .replaceAll('../../../support/', '../../../../test/support/')
    .replaceAll('../../../../src/core/', '../../');
}

// The modules of the copy are created by this test, so no other program has bundled them.
const bundleOf = await bundlePrograms(
  [
    'src/cli/main.ts',
    'src/core/lib/clock.ts',
    'src/core/config/json-schema.ts',
    'src/core/config/load-config.ts',
    'src/core/config/secret-references.ts',
    'src/core/lib/log.ts',
    'src/core/storage/backends.ts',
    'test/contract/storage.ts',
  ],
  inCopy('bundles'),
  copy,
);

/** A module of the copy, with the type of the original. */
async function fromCopy<T>(file: string): Promise<T> {
  return (await import(pathToFileURL(bundleOf(file)).href)) as T;
}

const home = { home: '/home/me' };
const shelf = (name: string): string => `backend: shelf, cabinet: ./cabinet, shelf: ${name}, key_env: KEY`;
const configuration = (source: string, destinations: string[], more = ''): string =>
  `${more}pipelines: [{id: p, source: {${source}}, destinations: [${destinations.map((each) => `{${each}}`).join(', ')}]}]\n`;

t.test('the list has the folder of every backend', async (t) => {
  const folders = readdirSync('src/core/storage').filter((name) =>
    existsSync(`src/core/storage/${name}/${name}-backend.ts`),
  );
  t.same(folders, Object.keys(backends).sort());
  t.equal(withLine.split('shelfBackend').length, 3, 'an import, and the one line');
});

t.test('it is in the schema, can be opened, and is accepted in catalogs', async (t) => {
  const { configJsonSchema } = await fromCopy<typeof import('../../../src/core/config/json-schema.ts')>(
    'src/core/config/json-schema.ts',
  );
  const schema = JSON.stringify(configJsonSchema());
  t.equal(schema.match(/"const":"shelf"/g)?.length, 3, 'a source, a destination, shared staging');
  t.equal(schema.match(/"allow_clearing"/g)?.length, 1, 'only destinations may be cleared');
  t.match(schema, 'and 3 for shelves');

  const { parseConfig } = await fromCopy<typeof import('../../../src/core/config/load-config.ts')>(
    'src/core/config/load-config.ts',
  );
  const parse = (text: string): ReturnType<typeof parseConfig> =>
    parseConfig(Buffer.from(text), '/etc/c.yml', home);
  const bullmq = `server: {queue: {driver: bullmq, redis_url_env: R}, staging: {${shelf('staging')}}}\n`;
  const { config } = parse(configuration(shelf('in'), [`id: d, ${shelf('out')}`], bullmq));
  const location = { backend: 'shelf', cabinet: '/etc/cabinet', keyEnv: 'KEY' };
  t.match(config.pipelines[0], {
    source: { ...location, shelf: 'in' },
    destinations: [{ location: { ...location, shelf: 'out', allowClearing: false }, fileConcurrency: 3 }],
  });
  const { directory, shared } = config.server.staging;
  t.same({ directory, shared }, { directory: '/etc/scratch', shared: { ...location, shelf: 'staging' } });
  const { referencedSecrets } = await fromCopy<
    typeof import('../../../src/core/config/secret-references.ts')
  >('src/core/config/secret-references.ts');
  t.same(
    referencedSecrets(config, { queue: true }).map(({ name, neededBy }) => `${name} ${neededBy}`),
    [
      'KEY the source of pipeline "p"',
      'KEY destination "d" of pipeline "p"',
      'R server.queue',
      'KEY server.staging',
    ],
  );

  for (const [text, code, pointer] of [
    [configuration(shelf('in'), [`id: d, ${shelf('in')}`]), 'overlapping_locations', 'shelf'],
    [configuration(shelf('in'), [`id: d, ${shelf('floor')}`]), 'invalid_value', 'shelf'],
    [configuration(shelf('in'), [`id: d, note: x, ${shelf('out')}`]), 'missing_key', 'note_language'],
  ] as const) {
    const pointed = { code, pointer: `pipelines[0].destinations[0].${pointer}` };
    t.throws(() => parse(text), { code: 'config_invalid', findings: [pointed] }, pointer);
  }
  t.throws(
    () =>
      parse(configuration(shelf('in'), [`id: d, ${shelf('out')}`], `server: {staging: {${shelf('s')}}}\n`)),
    { code: 'config_invalid', findings: [{ code: 'invalid_value', pointer: 'server.staging.backend' }] },
    'a queue in memory stages in a local directory',
  );

  const { sourceBackends } = await fromCopy<typeof import('../../../src/core/storage/backends.ts')>(
    'src/core/storage/backends.ts',
  );
  t.same(sourceBackends, ['local', 'shelf', 'sftp', 's3', 'http_upload']);
});

t.test('the command line checks, publishes, verifies, prunes and forces', async (t) => {
  const place = t.testdir({
    in: {
      'manifest.json': JSON.stringify({ created: '2026-11-20T01:02:03Z', files: ['a.txt'] }),
      'a.txt': 'a',
    },
  });
  const destinations = [
    `id: d, ${shelf('out')}, retention: {prune: {enabled: true, keep_latest: 0}}`,
    `id: open, ${shelf('open')}, mapping: fixed, workflow: replacement, allow_clearing: true`,
    `id: shut, ${shelf('shut')}, mapping: fixed, workflow: replacement`,
  ];
  writeFileSync(path.join(place, 'c.yml'), configuration('backend: local, path: ./in', destinations));
  const waybill = (...args: string[]): { status: number | null; text: string } => {
    const { status, stdout, stderr } = spawnSync(
      process.execPath,
      [bundleOf('src/cli/main.ts'), ...args, '--config', path.join(place, 'c.yml')],
      { encoding: 'utf8', env: { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent', KEY: 'k' } },
    );
    return { status, text: stdout + stderr };
  };
  const names = (name: string): string[] =>
    Object.keys(JSON.parse(readFileSync(path.join(place, `cabinet.${name}`), 'utf8')) as object).sort();

  t.match(waybill('config', 'check'), { status: 0 });
  t.match(waybill('run'), { status: 0 });
  for (const name of ['out', 'open', 'shut']) t.same(names(name), ['.publisher.json', 'a.txt'], name);
  t.match(waybill('verify'), { status: 0, text: 'shelf://out' });
  t.match(waybill('prune', '--pipeline', 'p', '--destination', 'd', '--apply'), { status: 0 });
  t.same(names('out'), ['.publisher.json']);

  for (const name of ['open', 'shut'])
    writeFileSync(path.join(place, `cabinet.${name}`), JSON.stringify({ 'a.txt': '', 'strange.txt': '' }));
  t.match(waybill('run', '--destination', 'open', '--force'), { status: 0 });
  t.same(names('open'), ['.publisher.json', 'a.txt'], 'cleared');
  t.match(waybill('run', '--destination', 'shut', '--force'), {
    status: 1,
    text: 'shelf://shut: a forced replacement here would delete everything in the shelf',
  });
  t.same(names('shut'), ['a.txt', 'strange.txt'], 'nothing was deleted');
});

t.test('it passes the contract suite when opened by the program', async (t) => {
  const { storageContract } =
    await fromCopy<typeof import('../../contract/storage.ts')>('test/contract/storage.ts');
  const { backendOf } = await fromCopy<typeof import('../../../src/core/storage/backends.ts')>(
    'src/core/storage/backends.ts',
  );
  const { systemClock } =
    await fromCopy<typeof import('../../../src/core/lib/clock.ts')>('src/core/lib/clock.ts');
  const { silentLog } = await fromCopy<typeof import('../../../src/core/lib/log.ts')>('src/core/lib/log.ts');
  const secrets = { get: () => 'k', require: () => 'k', warnings: [] };
  const context = { clock: systemClock, log: silentLog, secrets };
  await storageContract(t, async (t) => {
    const location = {
      backend: 'shelf',
      cabinet: path.join(t.testdir(), 'cabinet'),
      shelf: 's',
      keyEnv: 'K',
    };
    const open = async (): ReturnType<ReturnType<typeof backendOf>['open']> =>
      // The original does not have the backend.
      backendOf(location as never).open(location as never, context, { readOnly: false });
    return { open };
  });
});

t.test('fails to compile if the registration or a member is missing', async (t) => {
  const declaration = readFileSync(path.join(folder, 'shelf-backend.ts'), 'utf8');
  const members = membersOf(declaration);
  t.ok(members.length >= 14, 'there are members to omit');
  const use = path.join(folder, 'use.ts');
  writeFileSync(
    use,
    "import type { StorageLocation } from '../backends.ts';\nexport const place: StorageLocation['backend'] = 'shelf';\n",
  );
  for (const { name, rest } of members) writeFileSync(path.join(folder, `without-${name}.ts`), rest);

  const whole = compiled(
    [use, path.join(folder, 'shelf-backend.ts')].concat(
      members.map(({ name }) => path.join(folder, `without-${name}.ts`)),
    ),
  );
  t.same(whole(use), []);
  t.same(whole(path.join(folder, 'shelf-backend.ts')), []);
  for (const { name } of members)
    t.match(whole(path.join(folder, `without-${name}.ts`)), [RegExp(`Property '${name}' is missing`)], name);

  writeFileSync(list, withoutLine);
  t.match(compiled([use])(use), [/Type '"shelf"' is not assignable/], 'the line');
  writeFileSync(list, withLine);
});

/** The members of the declared backend, and the file without each. */
function membersOf(text: string): { name: string; rest: string }[] {
  const found: { name: string; rest: string }[] = [];
  const visit = (node: ts.Node): void => {
    if (
      ts.isVariableDeclaration(node) &&
      node.initializer !== undefined &&
      ts.isObjectLiteralExpression(node.initializer)
    )
      for (const member of node.initializer.properties) {
        const rest = text.slice(0, member.pos) + text.slice(member.end + 1);
        found.push({ name: member.name?.getText() ?? '', rest });
      }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('backend.ts', text, ts.ScriptTarget.Latest, true));
  return found;
}

/** The compiler's messages about a file of the copy, with the project's own options. */
function compiled(files: string[]): (file: string) => string[] {
  const { config } = ts.readConfigFile('tsconfig.json', (file) => readFileSync(file, 'utf8')) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, process.cwd());
  const program = ts.createProgram(files, { ...options, rootDir: copy });
  return (file) =>
    program
      .getSemanticDiagnostics(program.getSourceFile(file))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}
