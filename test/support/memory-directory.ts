import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';

/**
 * A directory in memory, if the machine has one. Otherwise, thousands of worlds would wait for a disk. `npm
 * test` creates one for each file.
 */
export function memoryDirectory(): string {
  return process.env['WAYBILL_TEST_MEMORY'] ?? (existsSync('/dev/shm') ? '/dev/shm' : tmpdir());
}
