import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import markdown from '@eslint/markdown';
import { cruise, type ICruiseResult, type IRegularForbiddenRuleType } from 'dependency-cruiser';
import { Linter } from 'eslint';
import t from 'tap';
import ts from 'typescript';
import { plainEnglish } from '../scripts/lint/plain-english.mjs';
import { folderCycles, type Import } from './support/folder-cycles.ts';

// Reading all of src takes seconds, and many times that on a busy machine.
t.setTimeout(0);

/** Files with decisions, which are functions of values. */
const pureFiles = [
  'lib/paths.ts',
  'catalog/parse.ts',
  'catalog/catalog.ts',
  'catalog/serialise.ts',
  'catalog/canonical-reader.ts',
  'catalog/settle.ts',
  'maintain/select-prunable.ts',
  'notify/address-policy.ts',
  'notify/event.ts',
  'notify/message.ts',
  'publish/results/occurrences.ts',
  'notify/webhook-signature.ts',
  'publish/decision/decide.ts',
  'publish/select-bundles.ts',
  'publish/plan.ts',
  'publish/decision/refusals.ts',
]
  .map((file) => `core/${file}`)
  .concat(
    'weather/records/combined-conditions.ts',
    'weather/records/combined-conditions.ts',
    'weather/units.ts',
  )
  .map((file) => `src/${file}`);

/**
 * The files that may import a package, as a pattern for the whole path. Other packages may be imported
 * anywhere.
 */
const homes: Record<string, string> = {
  '@noble/hashes': 'src/core/signing/secret-key\\.ts',
  '@aws-sdk/[^/]+': 'src/core/storage/s3/(s3-client|sdk)\\.ts',
  '@smithy/[^/]+': 'src/core/storage/s3/(sdk|answer-limit)\\.ts',
  'ssh2-sftp-client': 'src/core/storage/sftp/session\\.ts',
  ssh2: 'src/core/storage/sftp/.+',
  express: 'src/(api|weather)/.+',
  cors: 'src/api/http/answer/cross-origin\\.ts',
  busboy: 'src/api/.+',
  '@tus/[^/]+': 'src/api/uploads/.+',
  multer: 'src/api/.+',
  bullmq: 'src/workers/bullmq/.+',
  ioredis: 'src/(workers/bullmq/.+|core/notify/sinks/redis\\.ts)',
  nodemailer: 'src/core/notify/sinks/email\\.ts',
  joi: 'src/core/lib/settings/.+',
  lmdb: 'src/workers/embedded/lmdb-file\\.ts',
  postgres: 'src/weather/(database|feed/tables)/.+',
  '@electric-sql/pglite': 'src/weather/(database|feed/tables)/.+',
  'drizzle-orm': 'src/weather/.+',
  piscina: 'src/workers/threads/pool\\.ts',
  commander: 'src/cli/.+',
  'ipaddr.js': 'src/(core/notify/address-policy|api/http/request/shares)\\.ts',
  croner: 'src/core/config/timetable\\.ts',
  'cli-progress': 'src/cli/.+',
  picocolors: 'src/cli/.+',
  yaml: 'src/core/config/.+',
  'jsonc-parser': 'src/core/lib/located-json/.+',
  tar: 'src/core/bundle/.+',
  fflate: 'src/core/bundle/archive/gzip\\.ts',
  ignore: 'src/core/bundle/pack/.+',
  'eventsource-parser': 'src/client/.+',
  jose: 'src/api/(console/sealed-cookie|publishers/.+)\\.ts',
  cookie: 'src/api/console/sealed-cookie\\.ts',
  'rate-limiter-flexible': 'src/api/http/login-limit\\.ts',
  'd3-[^/]+': 'src/(api/console/views|browser|weather)/.+',
  idiomorph: 'src/browser/.+',
  'modern-tar': 'src/browser/.+',
  ejs: 'src/(core/(outputs|scene-map)/.+|weather/render/.+|api/pages/render-page\\.ts)',
  'fast-xml-builder': 'src/core/lib/xml\\.ts',
  '@turf/rewind': 'src/weather/render/formats\\.ts',
  '@turf/bbox-clip': 'src/weather/render/formats\\.ts',
  '@turf/bearing': 'src/weather/places/place-index\\.ts',
  '@turf/distance': 'src/weather/places/place-index\\.ts',
  '@turf/boolean-point-in-polygon': 'src/weather/places/outlines\\.ts',
  kdbush: 'src/weather/places/place-index\\.ts',
  geokdbush: 'src/weather/places/place-index\\.ts',
  flatbush: 'src/weather/places/outlines\\.ts',
  'd3-geo': 'src/weather/pages/map-shapes\\.ts',
  'csv-parse': 'src/(weather/feed/documents/place-tables|core/scene-map/transcript)\\.ts',
  'csv-stringify': 'src/weather/render/formats\\.ts',
  negotiator: 'src/api/http/answer/negotiate\\.ts',
  '@photostructure/tz-lookup': 'src/weather/places/position\\.ts',
  'fast-xml-parser': 'src/weather/feed/documents/.+',
  'prom-client': 'src/api/metrics/.+',
  '@opentelemetry/[^/]+': 'src/core/tracing/open-telemetry\\.ts',
  tsx: 'src/workers/(threads|disk)/.+-from-source\\.mjs',
};

const layers = ['core', 'workers', 'api', 'weather', 'cli'];
const folders = [...layers, 'client'];

type Rule = IRegularForbiddenRuleType & { name: string };

const rules: Rule[] = [
  // cli → weather → api → workers → core: a layer imports itself and the layers before it in the list.
  ...layers.slice(1).map((layer, index) => ({
    name: `nothing-below-imports-${layer}`,
    severity: 'error' as const,
    from: { path: `^src/(${layers.slice(0, index + 1).join('|')})/` },
    to: { path: `^src/${layer}/` },
  })),
  // The weather reader and its feeder do not use runs. Only its routes and pages use HTTP.
  {
    name: 'weather-does-not-import-workers',
    severity: 'error',
    from: { path: '^src/weather/' },
    to: { path: '^src/workers/' },
  },
  {
    name: 'only-weather-routes-and-pages-import-api',
    severity: 'error',
    from: { path: '^src/weather/', pathNot: '^src/weather/((api|pages)/|reader-app)' },
    to: { path: '^src/(api|weather/(api|pages))/' },
  },
  {
    name: 'cli-does-not-reach-into-workers',
    severity: 'error',
    from: { path: '^src/cli/', pathNot: '^src/cli/(daemon|commands/daemon)/' },
    to: { path: '^src/workers/' },
  },
  // The producer's part of the package: it has no code of the daemon, and no import path to it.
  {
    name: 'client-imports-only-core',
    severity: 'error',
    from: { path: '^src/client/' },
    to: { path: '^src/(workers|api|weather|cli)/' },
  },
  {
    name: 'only-cli-imports-client',
    severity: 'error',
    from: { path: '^src/(core|workers|api|weather)/' },
    to: { path: '^src/client/' },
  },
  // Code for browsers, which is compiled separately and must not use Node.js.
  {
    name: 'browser-imports-only-core',
    severity: 'error',
    from: { path: '^src/browser/' },
    to: { path: '^src/(workers|api|weather|cli|client)/' },
  },
  {
    name: 'nothing-imports-browser',
    severity: 'error',
    from: { path: '^src/(core|workers|api|weather|cli|client)/' },
    to: { path: '^src/browser/' },
  },
  { name: 'no-cycle', severity: 'error', from: {}, to: { circular: true } },
  { name: 'every-import-resolves', severity: 'error', from: {}, to: { couldNotResolve: true } },
  {
    name: 'src-imports-only-src-and-packages',
    severity: 'error',
    from: { path: '^src/' },
    to: { path: '^(test|bench|scripts|examples)/' },
  },
  ...Object.entries(homes).map(([name, home]) => ({
    name: `only-at-home: ${name}`,
    severity: 'error' as const,
    from: { path: '^src/', pathNot: `^${home}$` },
    to: { path: `(^|/)(node_modules/)?(@types/)?${name}(/|$)`, pathNot: '^src/' },
  })),
];

async function imports(root: string): Promise<ICruiseResult> {
  const { output } = await cruise(['src'], {
    baseDir: path.resolve(root),
    ruleSet: { forbidden: rules },
    validate: true,
    // Type imports count, too: a cycle of types is also a design problem.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: path.resolve('tsconfig.json') },
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'types', 'default'],
    },
  });
  if (typeof output === 'string') throw new TypeError('a report instead of a result');
  return output;
}

let whole: Promise<ICruiseResult> | undefined;
/** The imports of the whole of `src`, read once. */
function wholeSource(): Promise<ICruiseResult> {
  whole ??= imports('.');
  return whole;
}

function violations({ summary }: ICruiseResult): string[] {
  return summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} → ${to}`);
}

/**
 * The globals that code uses without an import: `process.argv` (and `process`), `Date.now`, `new Date()`,
 * `fetch()`. Names of properties and parameters do not count.
 */
function ambientUses(text: string): Set<string> {
  const uses = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAccessExpression(node) && ts.isIdentifier(node.expression)) {
      uses.add(node.expression.text).add(`${node.expression.text}.${node.name.text}`);
    } else if (
      ts.isVariableDeclaration(node) &&
      node.initializer !== undefined &&
      ts.isIdentifier(node.initializer)
    ) {
      uses.add(node.initializer.text);
    } else if (ts.isCallExpression(node) && ts.isIdentifier(node.expression)) {
      uses.add(`${node.expression.text}()`);
    } else if (ts.isNewExpression(node) && (node.arguments ?? []).length === 0) {
      uses.add(`new ${node.expression.getText()}()`);
    }
    ts.forEachChild(node, visit);
  };
  visit(ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true));
  return uses;
}

const ofTheCommandLine = [
  'process.argv',
  'process.exit',
  'process.exitCode',
  'process.env',
  'process.stdout',
  'process.stderr',
];
const impure = [
  'process',
  'performance',
  'globalThis',
  'Date.now',
  'new Date()',
  'Date()',
  'Math.random',
  'setTimeout()',
  'fetch()',
];

function usesIn(file: string, names: readonly string[]): string[] {
  const uses = ambientUses(readFileSync(file, 'utf8'));
  return names.filter((name) => uses.has(name)).map((name) => `${file}: ${name}`);
}

/** The files that run when one of these is called: all direct and indirect imports except types. */
function closureOf(files: readonly string[], { modules }: ICruiseResult): string[] {
  const bySource = new Map(modules.map((module) => [module.source, module]));
  const reached = new Set(files);
  for (const file of reached)
    for (const { resolved, dependencyTypes } of bySource.get(file)?.dependencies ?? [])
      if (resolved.startsWith('src/') && !dependencyTypes.includes('type-only')) reached.add(resolved);
  return [...reached];
}

const outside = /^(node:)?(fs|os|process|child_process|net|http|timers|perf_hooks|worker_threads)(\/|$)/;

/** Everything outside the program that these files import, directly or indirectly. */
function outsideOf(files: readonly string[], result: ICruiseResult): string[] {
  const closure = new Set(closureOf(files, result));
  return result.modules
    .filter(({ source }) => closure.has(source))
    .flatMap(({ source, dependencies }) =>
      dependencies
        .filter(
          ({ module, dependencyTypes }) => outside.test(module) && !dependencyTypes.includes('type-only'),
        )
        .map(({ module }) => `${source} → ${module}`),
    );
}

t.test('code that sends e-mail is loaded only for a notifier that needs it', async (t) => {
  const importers = (await wholeSource()).modules.flatMap(({ source, dependencies }) =>
    dependencies
      .filter(
        ({ module, dependencyTypes }) =>
          source.startsWith('src/') &&
          module.startsWith('nodemailer/') &&
          !dependencyTypes.includes('type-only'),
      )
      .map(({ dynamic }) => ({ source, dynamic })),
  );
  t.ok(importers.length > 0);
  t.same(
    importers.filter(({ dynamic }) => !dynamic),
    [],
  );
});

t.test(
  'imports follow the arrows, without a cycle, and each package is imported only by its wrappers',
  async (t) => {
    const result = await wholeSource();
    t.ok(result.summary.totalCruised > 100, 'all of src was read');
    t.same(violations(result), []);
  },
);

function importsBetweenFiles({ modules }: ICruiseResult): Import[] {
  return modules
    .filter(({ source }) => source.startsWith('src/'))
    .flatMap(({ source, dependencies }) =>
      dependencies
        .filter(({ resolved }) => resolved.startsWith('src/'))
        .map(({ resolved }) => ({ from: source, to: resolved })),
    );
}

t.test('no two folders import each other', async (t) => {
  t.same(folderCycles(importsBetweenFiles(await wholeSource())), []);
});

t.test('a folder has at most sixteen files', async (t) => {
  const larger = ['src/core/lib', 'src/workers/bullmq'];
  const counts = new Map<string, number>();
  for (const file of filesIn('.')) counts.set(path.dirname(file), (counts.get(path.dirname(file)) ?? 0) + 1);
  t.ok(counts.size > 60);
  t.same(
    [...counts].filter(([folder, count]) => count > 16 && !larger.includes(folder)),
    [],
  );
});

t.test('a cycle of folders is found without a cycle of files', async (t) => {
  const across = [
    { from: 'src/core/catalog/parse.ts', to: 'src/core/bundle/paths.ts' },
    { from: 'src/core/bundle/discover.ts', to: 'src/core/catalog/catalog.ts' },
  ];
  t.same(folderCycles(across), [
    'core/bundle/discover.ts → core/catalog/catalog.ts, core/catalog/parse.ts → core/bundle/paths.ts',
  ]);
  t.same(
    folderCycles([
      { from: 'src/core/context.ts', to: 'src/core/storage/storage.ts' },
      { from: 'src/core/storage/open.ts', to: 'src/core/context.ts' },
    ]),
    ['core/context.ts → core/storage/storage.ts, core/storage/open.ts → core/context.ts'],
    'a file next to a folder',
  );
  t.same(
    folderCycles([
      { from: 'src/core/storage/backends.ts', to: 'src/core/storage/s3/s3-backend.ts' },
      { from: 'src/core/storage/s3/s3-backend.ts', to: 'src/core/storage/backend.ts' },
    ]),
    [],
    'a list of folders that share an interface is not one',
  );
  t.same(folderCycles(across.slice(1)), []);
});

t.test('decisions are pure, with everything that they call', async (t) => {
  const result = await wholeSource();
  t.same(outsideOf(pureFiles, result), []);
  const known = new Set(result.modules.map(({ source }) => source));
  t.same(
    pureFiles.filter((file) => !known.has(file)),
    [],
    'the pure files exist',
  );
  const closure = closureOf(pureFiles, result);
  t.ok(closure.length > pureFiles.length);
  t.same(
    closure.flatMap((file) => usesIn(file, impure)),
    [],
  );
});

t.test('timers go through the clock', async (t) => {
  const files = folders.flatMap(filesIn).filter((file) => file !== 'src/core/lib/clock.ts');
  t.same(
    files.filter((file) => makesTimers(readFileSync(file, 'utf8'))),
    [],
  );
  t.ok(makesTimers(readFileSync('src/core/lib/clock.ts', 'utf8')));
  for (const code of [
    'setTimeout(f, 1);',
    'setInterval(f, 1);',
    "import { setTimeout as delay } from 'node:timers/promises';",
  ])
    t.ok(makesTimers(code), code);
  for (const code of [
    'socket.setTimeout(1);',
    "import { setImmediate } from 'node:timers/promises';",
    '// setTimeout()',
  ])
    t.notOk(makesTimers(code), code);
});

function makesTimers(text: string): boolean {
  const uses = ambientUses(text);
  const imports = /\bset(Timeout|Interval)\b[^;]*\bfrom '(node:)?timers/.test(text);
  return uses.has('setTimeout()') || uses.has('setInterval()') || imports;
}

t.test('every wait for a signal uses onAbort, which registers one listener', async (t) => {
  const listens = (text: string): boolean => /\.addEventListener\(\s*'abort'|\bsetMaxListeners\(/.test(text);
  const files = folders.flatMap(filesIn).filter((file) => listens(readFileSync(file, 'utf8')));
  t.same(files, ['src/core/lib/on-abort.ts']);
});

t.test('only the command line uses arguments, environment, standard streams and exit codes', async (t) => {
  const files = ['core', 'workers', 'api', 'weather', 'client'].flatMap(filesIn);
  t.ok(files.length > 90);
  t.same(
    files.flatMap((file) => usesIn(file, ofTheCommandLine)),
    [],
  );
});

t.test('every rule rejects its violation', async (t) => {
  const at: Record<string, string> = {
    'nothing-below-imports-workers': 'core/up.ts',
    'nothing-below-imports-api': 'workers/up.ts',
    'nothing-below-imports-weather': 'api/weather.ts',
    'nothing-below-imports-cli': 'api/up.ts',
    'weather-does-not-import-workers': 'weather/down.ts',
    'only-weather-routes-and-pages-import-api': 'weather/http.ts',
    'cli-does-not-reach-into-workers': 'cli/down.ts',
    'client-imports-only-core': 'client/across.ts',
    'only-cli-imports-client': 'api/client.ts',
    'browser-imports-only-core': 'browser/across.ts',
    'nothing-imports-browser': 'core/page.ts',
    'no-cycle': 'core/first.ts',
    'every-import-resolves': 'core/lost.ts',
    'src-imports-only-src-and-packages': 'core/tested.ts',
  };
  const files: Record<string, string> = {
    'core/up.ts': "import '../workers/some.ts';",
    'workers/some.ts': 'export {};',
    'workers/up.ts': "import '../api/some.ts';",
    'api/some.ts': 'export {};',
    'api/up.ts': "import '../cli/some.ts';",
    'cli/some.ts': 'export {};',
    'api/weather.ts': "import '../weather/some.ts';",
    'weather/some.ts': 'export {};',
    'weather/down.ts': "import '../workers/some.ts';",
    'weather/http.ts': "import '../api/some.ts';",
    'cli/down.ts': "import '../workers/some.ts';",
    'client/across.ts': "import '../api/some.ts';",
    'api/client.ts': "import '../client/across.ts';",
    'browser/across.ts': "import '../api/some.ts';",
    'core/page.ts': "import '../browser/across.ts';",
    'core/first.ts': "import type { Second } from './second.ts';\nexport interface First { second: Second }",
    'core/second.ts': "import type { First } from './first.ts';\nexport interface Second { first: First }",
    'core/lost.ts': "import './nowhere.ts';",
    'core/tested.ts': "import '../../test/some.ts';",
    'core/publish/decision/decide.ts': "import '../../through.ts';",
    'core/through.ts': "import 'node:fs';",
  };
  for (const [index, name] of Object.keys(homes).entries()) {
    const file = `core/stray-${index}.ts`;
    at[`only-at-home: ${name}`] = file;
    files[file] = `import '${name.replace('[^/]+', 'anything')}';`;
  }
  const root = t.testdir({ test: { 'some.ts': 'export {};' } });
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.join(root, 'src', path.dirname(file)), { recursive: true });
    writeFileSync(path.join(root, 'src', file), text);
  }
  const result = await imports(root);
  t.same(outsideOf(['src/core/publish/decision/decide.ts'], result), ['src/core/through.ts → fs']);
  const found = violations(result);
  for (const { name } of rules)
    t.ok(
      found.some((violation) => violation.startsWith(`${name}: src/${at[name] ?? 'missing'} `)),
      name,
    );

  const impureCode =
    'const a = process.env; const b = new Date(); const c = Date.now(); process.exitCode = 1;';
  for (const use of ['process', 'process.env', 'new Date()', 'Date.now', 'process.exitCode'])
    t.ok(ambientUses(impureCode).has(use), use);
  t.notOk(ambientUses('const a = new Date(0); // process.env').size > 0);
});

t.test('lint rejects words that make texts hard to read, in comments and texts only', (t) => {
  const found = (code: string, language = '@/js'): number => {
    const plugins = { markdown, waybill: { rules: { 'plain-english': plainEnglish } } };
    const rules = { 'waybill/plain-english': 'error' as const };
    return new Linter().verify(code, [{ files: ['**'], language, plugins, rules }], 'any').length;
  };
  t.equal(found('// Whoever reads this.'), 1);
  t.equal(found("const text = 'the server is away';"), 1);
  t.equal(found('const text = `${a} is no directory`;'), 1);
  for (const sentence of [
    'what is published stays',
    'The catalog is wrong: what has changed is not in it.',
    'a list of what is staged',
    'who waits too long is rejected',
    'of two requests one is rejected',
    'a caller is told the reason',
    'a manifest that is none',
    'a pipeline that there is not',
    'the run stands still',
    'an upload is under way',
  ]) {
    t.equal(found(`t.test('${sentence}', () => {});`), 1, sentence);
    t.equal(found(`/** ${sentence} */`), 1, sentence);
  }
  for (const sentence of ['Reports what the server requires.', 'The token decides who may publish.'])
    t.equal(found(`const text = '${sentence}';`), 0, sentence);
  t.equal(found("// The client reads this.\nconst beside = 'beside';"), 0);
  t.equal(found('Whoever reads this.\n\n```\nthe server is away\n```\n', 'markdown/gfm'), 1);
  t.equal(found('`whoever` reads', 'markdown/gfm'), 0);
  t.end();
});

t.test('every source file that a comment or a page names exists', async (t) => {
  const all = ['src', 'docs', 'templates', 'test', 'scripts', 'bench'].flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  );
  const readers = all.filter((name) => /^(src|docs)\/.*\.(ts|md)$/.test(name) && !name.includes('generated'));
  for (const reader of [...readers, 'ARCHITECTURE.md', 'CONTRIBUTING.md']) {
    const prose = reader.endsWith('.md') ? /.*/g : /^\s*(?:\/?\*|\/\/).*/gm;
    for (const [line] of readFileSync(reader, 'utf8').matchAll(prose))
      for (const [, name = ''] of line.matchAll(/`(?:\.\.?\/)*([\w./-]+\.(?:ts|mjs|lua|ejs))`/g))
        if (!name.includes('NAME'))
          t.ok(
            all.some((file) => `/${file}`.endsWith(`/${name}`)),
            `${reader}: ${name}`,
          );
  }
});

function filesIn(layer: string): string[] {
  return readdirSync(`src/${layer}`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => path.posix.join('src', layer, name));
}
