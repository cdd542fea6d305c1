/**
 * Measures the costs of waybill, computes the hardware for a load, and compares a simulation with real
 * processes. It needs an otherwise idle machine: several results are differences, which noise would hide.
 * Environment: BENCH_UPLOADS (2000) of each measurement.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { goal } from './measure.ts';
import { compareAll } from './scaling/compare.ts';
import { measureCosts } from './scaling/costs.ts';
import { comparisonTable, costTable, needsTable } from './scaling/tables.ts';
import { requireWrk } from './weather-load.ts';

const maxOff = 0.15;

/** Returns whether the simulation is within 15 % of the measurement. */
export async function simulation(): Promise<boolean> {
  requireWrk();
  const root = mkdtempSync(path.join(process.env['WAYBILL_BENCH_DIRECTORY'] ?? tmpdir(), 'waybill-bench-'));
  try {
    const costs = await measureCosts(root);
    console.log(
      `\nwhat each costs\n\n${costTable(costs)}\n\na stream that is open: ${costs.subscriberKiB.toFixed(0)} KiB; of the kernel, for an upload and its run: ${costs.kernelMs.toFixed(1)} ms; between two runs in one place: ${costs.turnaroundMs.toFixed(1)} ms`,
    );
    console.log(`\nwhat a load takes\n\n${needsTable(costs)}`);
    const compared = await compareAll(root, costs);
    console.log(`\nsimulated and measured\n\n${comparisonTable(compared)}\n`);
    return compared
      .map(({ processes, shards, perSecond: { real, simulated } }) => {
        const off = simulated / real - 1;
        const what = `${processes} processes, ${shards} Redis: simulated throughput`;
        return goal(`${what} ${percent(off)} (goal within 15 %)`, Math.abs(off) <= maxOff);
      })
      .every(Boolean);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

function percent(share: number): string {
  return `${share < 0 ? '-' : '+'}${Math.abs(share * 100).toFixed(0)} %`;
}
