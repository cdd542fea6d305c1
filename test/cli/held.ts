import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/**
 * Lets another host hold the lease of a bundle path, so that a run waits for as long as a test needs. Its
 * lock is never renewed, and becomes stale only after two minutes.
 */
export function holdLease(bundlePath: string): string {
  mkdirSync(bundlePath, { recursive: true });
  const lock = path.join(bundlePath, '.publisher.lock');
  const holder = { host: 'elsewhere', pid: 1, boot_id: null, process: null, instance_id: 'another' };
  writeFileSync(lock, `${JSON.stringify({ ...holder, renewals: 0 })}\n`);
  return lock;
}
