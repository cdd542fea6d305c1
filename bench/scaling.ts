/**
 * Measures the cost of each operation, and calculates how much hardware a given load would need. The machine
 * must not be doing anything else. Environment: BENCH_UPLOADS, how many uploads each measurement consists of
 * (2000).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { measureCosts } from './scaling/costs.ts';
import { costTable, needsTable } from './scaling/tables.ts';
import { requireWrk } from './weather-load.ts';

export async function scaling(): Promise<boolean> {
  requireWrk();
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const costs = await measureCosts(root);
    console.log(
      `\ncost of each operation\n\n${costTable(costs)}\n\nan open stream: ${costs.subscriberKiB.toFixed(0)} KiB; the kernel, for an upload and its run: ${costs.kernelMs.toFixed(1)} ms; between two runs of a slot: ${costs.turnaroundMs.toFixed(1)} ms`,
    );
    console.log(`\ncapacity for a load\n\n${needsTable(costs)}\n`);
    return true;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
