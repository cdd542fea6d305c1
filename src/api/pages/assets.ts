import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * A stylesheet or script used by pages, named `NAME.css` or `NAME.js`. Names consist of a-z, 0-9 and `-`. A
 * stylesheet is `templates/styles/NAME.css`, or the build output of the styles that a script imports. A
 * script is the build output of `src/browser/NAME.ts`. `waybill.css` has the design tokens and components.
 */
export interface Asset {
  /**
   * Contains a digest of the bytes, so that caches may keep it forever, such as
   * `waybill.0123456789abcdef.css`.
   */
  fileName: string;
  mediaType: string;
  body: Buffer;
}

const mediaTypes: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
};
const parts: Readonly<Record<string, readonly string[]>> = {
  'waybill.css': ['tokens.css', 'base.css', 'components.css'],
};
const stylesDirectory = new URL('../../../templates/styles/', import.meta.url);
/** The same relative path works in the build and in the sources. */
const builtDirectory = new URL('../../../dist/browser/', import.meta.url);
const known = new Map<string, Asset>();

/** Returns a program asset by name. Throws if it does not exist, for example before a build. */
export function assetNamed(name: string): Asset {
  const asset = findAsset(name);
  if (asset === undefined)
    throw new Error(
      `there is no ${name}, neither in templates/styles nor in ${fileURLToPath(builtDirectory)}`,
    );
  return asset;
}

/**
 * Returns the asset with this file name. Returns undefined if there is none or the digest differs.
 *
 * @param fileName untrusted
 */
export function assetOfFile(fileName: string): Asset | undefined {
  const [, name, extension] = /^([a-z0-9-]+)\.[0-9a-f]{16}\.(css|js)$/.exec(fileName) ?? [];
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
  if (files !== undefined)
    return Buffer.concat(files.map((file) => readFileSync(new URL(file, stylesDirectory))));
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
