/*
 * `npm run package [-- DIRECTORY]`: makes the tarball that npm publishes, and its software bill of materials
 * (CycloneDX), in DIRECTORY (here, unless told otherwise), and prints the tarball's name.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import process from 'node:process';
import { assemble, billOfMaterials } from './assemble.mjs';

const [target = '.'] = process.argv.slice(2);
const directory = mkdtempSync(path.join(tmpdir(), 'waybill-package-'));
try {
  await assemble(directory);
  const args = ['pack', '--ignore-scripts', '--json', '--pack-destination', path.resolve(target)];
  const [{ filename }] = JSON.parse(execFileSync('npm', args, { cwd: directory, encoding: 'utf8' }));
  const bill = path.join(target, filename.replace(/\.tgz$/, '.cdx.json'));
  writeFileSync(bill, billOfMaterials(directory));
  console.log(path.join(target, filename));
} finally {
  rmSync(directory, { recursive: true, force: true });
}
