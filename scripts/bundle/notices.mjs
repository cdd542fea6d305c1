/*
 * Lists the packages in the bundles. `dist/THIRD-PARTY-NOTICES.txt` contains their licenses.
 * `dist/.bundled.json` contains their names and versions, for the bill of materials.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const rule = '-'.repeat(80);

/**
 * Writes both files. Throws an error if a package does not declare its license.
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

/** Returns the directories of the packages in the bundles, sorted. */
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

/** Returns the text of the package's license file. If there is none, returns the copyright holder. */
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
