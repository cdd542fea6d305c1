import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';

/**
 * Where directories lie in memory, if the machine has such a place: thousands of worlds would otherwise wait
 * for a disk. `npm test` gives each file one of its own.
 */
export function memoryDirectory(): string {
  return process.env['WAYBILL_TEST_MEMORY'] ?? (existsSync('/dev/shm') ? '/dev/shm' : tmpdir());
}
