import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { cached, madeOnce } from './cache.ts';
import { MissingService } from './debian.ts';

/** The directory of an npm package for tests only, installed with its dependencies if it is missing. */
export async function npmPackage(name: string, version: string): Promise<string> {
  const place = await madeOnce(cached(`${name.replace('/', '+')}-${version}`), async (made) => {
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--prefer-offline'];
    const retries = { npm_config_fetch_retries: '1', npm_config_fetch_timeout: '60000' };
    try {
      await promisify(execFile)('npm', ['install', '--prefix', made, ...options, `${name}@${version}`], {
        env: { ...process.env, NODE_OPTIONS: '', ...retries },
      });
    } catch (cause) {
      throw new MissingService(`${name}@${version} cannot be installed: npm has it not here`, { cause });
    }
  });
  return path.join(place, 'node_modules', name);
}
