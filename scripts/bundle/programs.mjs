/*
 * Bundles the programs and threads that are loaded as ES modules: the daemon, the worker, the weather
 * programs, and the client library. Otherwise, most of their startup time would go into finding and compiling
 * hundreds of small files. Every module can still be imported under its old name in `dist`, where a single
 * line imports the bundle.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import { ownCode } from './sources.mjs';

const directory = 'dist/bundle/modules';

/**
 * The modules that can be imported by name, and their bundles. Names are in `dist`, without the extension.
 */
const entries = {
  serve: 'cli/daemon/serve',
  feed: 'cli/commands/weather/feed',
  weather: 'cli/commands/weather/read-weather',
  worker: 'cli/daemon/worker',
  'waybill-weather': 'cli/weather',
  client: 'client/client',
  'disk-thread': 'workers/disk/disk-thread',
  'file-reader': 'workers/embedded/file-reader',
  thread: 'workers/threads/thread',
};
const isProgram = (name) => name === 'waybill-weather';

/** The file that Piscina runs in its threads. */
const piscinaThread = {
  name: 'piscina-thread',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]piscina[\\/]dist[\\/]index\.js$/ }, ({ path: file }) => {
      const text = readFileSync(file, 'utf8');
      const contents = text.replace("(__dirname, 'worker.js')", "(__dirname, 'piscina-thread.mjs')");
      if (contents === text) throw new Error(`${file} no longer names the file of its threads`);
      return { contents };
    });
  },
};

/** Relative to `dist/bundle/modules`. */
const urlOf = (emitted) => `new URL(${JSON.stringify(`../../${emitted}`)}, import.meta.url).href`;

rmSync(directory, { recursive: true, force: true });
export const { metafile } = await build({
  entryPoints: {
    ...Object.fromEntries(Object.entries(entries).map(([name, module]) => [name, `src/${module}.ts`])),
    'piscina-thread': 'node_modules/piscina/dist/worker.js',
  },
  outdir: directory,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: 'linked',
  sourcesContent: false,
  metafile: true,
  // CommonJS packages expect these variables.
  banner: {
    js: `import { createRequire as requireOfBundle } from 'node:module';const require = requireOfBundle(import.meta.url), __filename = import.meta.filename, __dirname = import.meta.dirname;`,
  },
  plugins: [piscinaThread, ownCode(urlOf)],
  logLevel: 'warning',
});

for (const [name, module] of Object.entries(entries)) {
  const emitted = path.join('dist', `${module}.js`);
  const bundle = path.posix.relative(path.dirname(module), `bundle/modules/${name}.mjs`);
  const start = isProgram(name) ? '#!/usr/bin/env node\n' : '';
  mkdirSync(path.dirname(emitted), { recursive: true });
  writeFileSync(
    emitted,
    `${start}// Bundled: see scripts/bundle/programs.mjs.\nexport * from '${bundle}';\n`,
    { mode: start === '' ? 0o644 : 0o755 },
  );
}
