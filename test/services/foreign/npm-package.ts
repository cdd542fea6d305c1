import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { MissingService } from '../debian.ts';

const cache = path.resolve('node_modules/.cache/foreign-servers');

/** Where a package of npm is that only a test needs, installed with all of its own where it is missing. */
export async function npmPackage(name: string, version: string): Promise<string> {
  const place = path.join(cache, `${name}-${version}`);
  const found = path.join(place, 'node_modules', name);
  if (existsSync(found)) return found;
  mkdirSync(cache, { recursive: true });
  const made = mkdtempSync(path.join(cache, 'new-'));
  try {
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--prefer-offline'];
    const retries = { npm_config_fetch_retries: '1', npm_config_fetch_timeout: '60000' };
    await promisify(execFile)('npm', ['install', '--prefix', made, ...options, `${name}@${version}`], {
      env: { ...process.env, NODE_OPTIONS: '', ...retries },
    });
    renameSync(made, place);
  } catch (cause) {
    rmSync(made, { recursive: true, force: true });
    if (!existsSync(found))
      throw new MissingService(`${name}@${version} cannot be installed: npm has it not here`, { cause });
  }
  return found;
}
