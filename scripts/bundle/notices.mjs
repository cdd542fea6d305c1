/*
 * The packages in the bundles: `dist/THIRD-PARTY-NOTICES.txt` has their licenses, and `dist/.bundled.json`
 * lists their names and versions for the bill of materials.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const rule = '-'.repeat(80);

/**
 * Writes both files. Throws if a package names no license.
 *
 * @param {import('esbuild').Metafile[]} metafiles
 */
export function writeNotices(metafiles) {
  const directories = bundledPackages(metafiles);
  const names = new Set(directories.map(nameAndVersion));
  writeFileSync('dist/.bundled.json', JSON.stringify([...names]));
  const byText = new Map();
  for (const directory of directories) {
    const text = licenseText(directory);
    byText.set(text, [...(byText.get(text) ?? []), directory]);
  }
  const notices = [...byText].map(([text, those]) => `${those.map(heading).join('\n')}\n\n${text}\n`);
  const head = 'waybill includes these packages. Each is under the license that follows it.\n';
  writeFileSync('dist/THIRD-PARTY-NOTICES.txt', [head, ...notices].join(`\n${rule}\n\n`));
}

/** The directories of the packages whose code is in the bundles, sorted. */
function bundledPackages(metafiles) {
  const found = new Set();
  for (const { outputs } of metafiles)
    for (const { inputs } of Object.values(outputs))
      for (const [file, { bytesInOutput }] of Object.entries(inputs)) {
        const [directory] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? [];
        if (directory !== undefined && bytesInOutput > 0) found.add(directory);
      }
  return [...found].sort();
}

function nameAndVersion(directory) {
  const { name, version } = manifestOf(directory);
  return `${name}@${version}`;
}

function heading(directory) {
  const { licenses, license = licenses?.[0]?.type } = manifestOf(directory);
  if (typeof license !== 'string') throw new Error(`${directory} names no license`);
  return `${nameAndVersion(directory)} (${license})`;
}

/** The package's license file, or the copyright holder if it has none. */
function licenseText(directory) {
  const files = readdirSync(directory)
    .filter((name) => /^(?:licen[cs]e|copying|notice)(?:[.-].*)?$/i.test(name))
    .sort();
  const texts = files.map((name) => readFileSync(path.join(directory, name), 'utf8').trim());
  if (texts.length > 0) return texts.join('\n\n').replaceAll('\r', '');
  const { author } = manifestOf(directory);
  return `Copyright ${typeof author === 'string' ? author : (author?.name ?? 'its authors')}`;
}

function manifestOf(directory) {
  return JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'));
}
