import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { MissingService } from './debian.ts';

/** The oldest that the program supports, and one of each line since. */
export const nodeReleases = ['20.19.0', '22.23.3', '24.21.0', '26.9.0'] as const;

const cache = path.resolve('node_modules/.cache/node-releases');

/** The program of a release of Node.js, from npm's package of it, which is installed where it is missing. */
export async function nodeProgram(release: string): Promise<string> {
  const name = `node-${process.platform}-${process.arch}`;
  const place = path.join(cache, release);
  const program = path.join(place, 'node_modules', name, 'bin/node');
  if (existsSync(program)) return program;
  mkdirSync(cache, { recursive: true });
  const made = mkdtempSync(path.join(cache, 'new-'));
  try {
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--prefer-offline'];
    const retries = { npm_config_fetch_retries: '1', npm_config_fetch_timeout: '60000' };
    await promisify(execFile)('npm', ['install', '--prefix', made, ...options, `${name}@${release}`], {
      env: { ...process.env, NODE_OPTIONS: '', ...retries },
    });
    renameSync(made, place);
  } catch (cause) {
    rmSync(made, { recursive: true, force: true });
    if (existsSync(program)) return program; // Another was quicker.
    throw new MissingService(`Node.js ${release} cannot be installed: npm has no ${name}@${release} here`, {
      cause,
    });
  }
  return program;
}
