import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';

/** The package as published on npm, packed from the built program into `place`. */
export function packWaybill(place: string): string {
  const env = { PATH: process.env['PATH'] ?? '', HOME: place };
  const output = execFileSync(process.execPath, ['scripts/package/pack.mjs', place], {
    env,
    encoding: 'utf8',
  });
  return output.trim();
}

/** The result of `npm install --prefix` with a package, but with the dependencies of this clone. */
export function installLinked(tarball: string, prefix: string): void {
  const installed = path.join(prefix, 'node_modules', 'waybill');
  const bin = path.join(prefix, 'node_modules', '.bin');
  for (const directory of [installed, bin]) mkdirSync(directory, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '--strip-components=1', '-C', installed]);
  symlinkSync(path.resolve('node_modules'), path.join(installed, 'node_modules'));
  symlinkSync('../waybill/dist/bundle/waybill.cjs', path.join(bin, 'waybill'));
}
