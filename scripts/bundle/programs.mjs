/*
 * The long-running programs start as modules: daemon, worker, feeder and reader, and the threads that they
 * start. Finding and compiling the hundreds of small files that they are made of is most of their start, and
 * again that of each thread; here each becomes one file with what they share beside it. A module keeps its
 * name: what tsc made of it gives way to one line that names its bundle.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { build } from 'esbuild';
import { programEntries } from './entries.mjs';
import { ownCode } from './sources.mjs';

const directory = 'dist/bundle/modules';

/** Packages with many files that are loaded at a start, or with a storage, and read none of their own. */
const inlined = new Set([
  '@aws-sdk/client-s3',
  '@smithy/node-http-handler',
  '@smithy/signature-v4',
  'busboy',
  'canonicalize',
  'cors',
  'express',
  'fast-xml-parser',
  'ipaddr.js',
  'joi',
  'mime',
  'multer',
  'nanoid',
  'negotiator',
  'p-map',
  'prom-client',
  'tar',
  'yaml',
]);

/** From `dist/bundle/modules`. */
const urlOf = (emitted) => `new URL(${JSON.stringify(`../../${emitted}`)}, import.meta.url).href`;

rmSync(directory, { recursive: true, force: true });
await build({
  entryPoints: Object.fromEntries(programEntries.map((entry) => [path.basename(entry), `src/${entry}.ts`])),
  outdir: directory,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  splitting: true,
  format: 'esm',
  platform: 'node',
  target: 'node20.19',
  sourcemap: 'linked',
  sourcesContent: false,
  // Packages that are no ES modules ask for Node.js's own ones with this.
  banner: {
    js: "import { createRequire as requireOfBundle } from 'node:module';const require = requireOfBundle(import.meta.url);",
  },
  plugins: [ownCode(inlined, urlOf)],
  logLevel: 'warning',
});

for (const entry of programEntries) {
  const emitted = path.join('dist', `${entry}.js`);
  const bundle = path.posix.relative(path.dirname(entry), `bundle/modules/${path.basename(entry)}.mjs`);
  const text = `// Bundled with all that it loads: see scripts/bundle/programs.mjs.\nexport * from '${bundle}';\n`;
  mkdirSync(path.dirname(emitted), { recursive: true });
  writeFileSync(emitted, text);
  rmSync(`${emitted}.map`, { force: true });
}
