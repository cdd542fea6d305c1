/*
 * The scripts of the pages: each file directly in `src/pages` becomes one module for browsers, with all that
 * it imports, and one stylesheet if it imports styles of packages. `src/api/pages/assets.ts` serves them.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

const directory = 'dist/pages';
const entryPoints = readdirSync('src/pages')
  .filter((name) => name.endsWith('.ts'))
  .map((name) => `src/pages/${name}`);

rmSync(directory, { recursive: true, force: true });
mkdirSync(directory, { recursive: true });
export const { metafile } = await build({
  entryPoints,
  outdir: directory,
  bundle: true,
  format: 'esm',
  platform: 'browser',
  // What has `:has()`, module scripts and `color-mix`.
  target: ['chrome111', 'firefox121', 'safari16.4'],
  minify: true,
  metafile: true,
  legalComments: 'eof',
  tsconfig: 'src/pages/tsconfig.json',
  logLevel: 'warning',
});
