import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { ensureInstalled } from './debian.ts';
import type { Radosgw } from './radosgw.ts';

const run = promisify(execFile);

/**
 * Runs rclone with the remote `s3:` on a server. Installs it if it is missing. Returns the output, and throws
 * if it fails.
 */
export async function rclone({ endpoint, user }: Radosgw, args: readonly string[]): Promise<string> {
  await ensureInstalled('rclone');
  const remote = {
    TYPE: 's3',
    PROVIDER: 'Ceph',
    ENDPOINT: endpoint,
    ACCESS_KEY_ID: user.accessKeyId,
    SECRET_ACCESS_KEY: user.secretAccessKey,
  };
  const env: Record<string, string> = { PATH: process.env['PATH'] ?? '', HOME: '/nonexistent' };
  for (const [name, value] of Object.entries(remote)) env[`RCLONE_CONFIG_S3_${name}`] = value;
  const { stdout, stderr } = await run('rclone', ['--config', '', ...args], { env });
  return stdout + stderr;
}
