/*
 * Bundles the scripts of the pages. Each file directly in `src/browser` becomes one module, and one
 * stylesheet if it imports styles of packages. `src/api/pages/assets.ts` serves them.
 */
import { mkdirSync, readdirSync, rmSync } from 'node:fs';
import { build } from 'esbuild';

const directory = 'dist/browser';
const entryPoints = readdirSync('src/browser')
  .filter((name) => name.endsWith('.ts'))
  .map((name) => `src/browser/${name}`);

rmSync(directory, { recursive: true, force: true });
mkdirSync(directory, { recursive: true });
export const { metafile } = await build({
  entryPoints,
  outdir: directory,
  bundle: true,
  format: 'esm',
  platform: 'browser',
  // Browsers with `:has()`, module scripts and `color-mix`.
  target: ['chrome111', 'firefox121', 'safari16.4'],
  minify: true,
  metafile: true,
  legalComments: 'eof',
  tsconfig: 'src/browser/tsconfig.json',
  logLevel: 'warning',
});
