import { execFile, spawn } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * What libxml2 says of a document: nothing where it is well-formed. Installs Debian's package where it is
 * missing.
 */
export async function xmllint(xml: string): Promise<string> {
  await (present ??= ensure());
  return new Promise((resolve, reject) => {
    const child = spawn('xmllint', ['--noout', '-'], { stdio: ['pipe', 'ignore', 'pipe'] });
    let told = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (told += text));
    child.once('error', reject).once('close', (code) => resolve(code === 0 ? '' : told || `exit ${code}`));
    child.stdin.end(xml);
  });
}

let present: Promise<void> | undefined;

async function ensure(): Promise<void> {
  if ((await run('xmllint', ['--version']).catch(() => null)) !== null) return;
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  await run('apt-get', ['update', '-qq'], { env });
  await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'libxml2-utils'], { env });
}
