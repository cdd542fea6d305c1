/*
 * Bundles the scripts for the HTML pages, which `src/api/pages/assets.ts` serves. Each file directly in
 * `src/browser` becomes a script, and also a stylesheet if it imports styles from packages.
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
  // The first versions that support `:has()`, module scripts and `color-mix`.
  target: ['chrome111', 'firefox121', 'safari16.4'],
  minify: true,
  metafile: true,
  legalComments: 'eof',
  tsconfig: 'src/browser/tsconfig.json',
  logLevel: 'warning',
});
