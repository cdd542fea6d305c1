import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * A stylesheet, script or font for the HTML pages, named `NAME.css`, `NAME.js` or `NAME.woff2`. The name may
 * contain a-z, 0-9 and `-`. A script is built from `src/browser/NAME.ts`. A stylesheet is either
 * `templates/styles/NAME.css` or built from the styles that a script imports. `waybill.css` contains the
 * fonts, the design tokens and shared components. Fonts are in `templates/fonts`.
 */
export interface Asset {
  /** Contains a hash of the content, such as `waybill.0123456789abcdef.css`, so it can be cached forever. */
  fileName: string;
  mediaType: string;
  body: Buffer;
}

const mediaTypes: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  woff2: 'font/woff2',
};
const parts: Readonly<Record<string, readonly string[]>> = {
  'waybill.css': ['fonts.css', 'tokens.css', 'base.css', 'components.css'],
};
const stylesDirectory = new URL('../../../templates/styles/', import.meta.url);
const fontsDirectory = new URL('../../../templates/fonts/', import.meta.url);
/** This relative path is the same from the sources and from the build. */
const builtDirectory = new URL('../../../dist/browser/', import.meta.url);
const known = new Map<string, Asset>();

/**
 * Returns the asset with this name. Throws an error if there is none, for example because nothing has been
 * built yet.
 */
export function assetNamed(name: string): Asset {
  const asset = findAsset(name);
  if (asset === undefined)
    throw new Error(`there is no ${name}, neither in templates nor in ${fileURLToPath(builtDirectory)}`);
  return asset;
}

/**
 * Returns the asset with this file name. Returns undefined if there is none, or if its hash is outdated.
 *
 * @param fileName untrusted
 */
export function assetOfFile(fileName: string): Asset | undefined {
  const [, name, extension] = /^([a-z0-9-]+)\.[0-9a-f]{16}\.(css|js|woff2)$/.exec(fileName) ?? [];
  if (name === undefined || extension === undefined) return undefined;
  const asset = findAsset(`${name}.${extension}`);
  return asset?.fileName === fileName ? asset : undefined;
}

function findAsset(name: string): Asset | undefined {
  const kept = known.get(name);
  if (kept !== undefined) return kept;
  const body = bodyOf(name);
  if (body === undefined) return undefined;
  const [stem = '', extension = ''] = name.split('.');
  const hash = createHash('sha256').update(body).digest('hex').slice(0, 16);
  const asset = { fileName: `${stem}.${hash}.${extension}`, mediaType: mediaTypes[extension] ?? '', body };
  known.set(name, asset);
  return asset;
}

function bodyOf(name: string): Buffer | undefined {
  const files = parts[name];
  if (files !== undefined) {
    const css = files.map((file) => readFileSync(new URL(file, stylesDirectory), 'utf8')).join('');
    return Buffer.from(css.replace(/(?<=url\(')[a-z0-9-]+\.woff2/g, (font) => assetNamed(font).fileName));
  }
  if (name.endsWith('.woff2')) return readIfThere(new URL(name, fontsDirectory));
  const own = name.endsWith('.css') ? readIfThere(new URL(name, stylesDirectory)) : undefined;
  return own ?? readIfThere(new URL(name, builtDirectory));
}

function readIfThere(file: URL): Buffer | undefined {
  try {
    return readFileSync(file);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
