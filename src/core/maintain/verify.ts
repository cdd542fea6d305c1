import { observeBytes } from '../catalog/observe-bytes.ts';
import { readState } from '../catalog/store.ts';
import { errorRecord, type ErrorRecord } from '../errors.ts';
import type { Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { reportedPath, requireManagedPaths } from './managed-paths.ts';
import { validCatalog } from './reconcile.ts';

export interface VerifyReport {
  destinationPath: string;
  /** Outputs read in full. */
  verified: number;
  bytes: number;
  /** Every output that is not what its record says. */
  differing: {
    path: string;
    problem: 'missing' | 'size' | 'digest';
    expected: string;
    found: string | null;
  }[];
  /** An attempt that did not finish: its paths are not vouched for, and not looked at. */
  interrupted: boolean;
  error: ErrorRecord | null;
}

/**
 * Reads every recorded output of a destination again, in full, and holds it against its record. Never writes.
 */
export async function verify(
  root: Storage,
  options: { concurrency: number; onBytes?: (count: number) => void },
): Promise<VerifyReport[]> {
  const paths = await requireManagedPaths(root);
  const reports: VerifyReport[] = [];
  for (const path of paths) reports.push(await verifyPath(within(root, path), reportedPath(path), options));
  return reports;
}

async function verifyPath(
  storage: Storage,
  destinationPath: string,
  options: Parameters<typeof verify>[1],
): Promise<VerifyReport> {
  const report: VerifyReport = {
    destinationPath,
    verified: 0,
    bytes: 0,
    differing: [],
    interrupted: false,
    error: null,
  };
  try {
    const { outputs, pending } = validCatalog((await readState(storage)).state);
    const unvouched = new Set<string>([
      ...(pending?.outputs.map(({ path }) => path) ?? []),
      ...(pending?.removes ?? []),
    ]);
    const vouched = outputs.filter(({ path }) => !unvouched.has(path));
    const observed = await observeBytes(
      storage,
      vouched.map(({ path }) => path),
      options,
    );
    for (const { path, size, digest } of vouched) {
      const truth = observed.get(path) ?? null;
      report.verified += 1;
      report.bytes += truth?.size ?? 0;
      if (truth === null) report.differing.push({ path, problem: 'missing', expected: digest, found: null });
      else if (truth.size !== size)
        report.differing.push({ path, problem: 'size', expected: `${size}`, found: `${truth.size}` });
      else if (truth.digest !== digest)
        report.differing.push({ path, problem: 'digest', expected: digest, found: truth.digest });
    }
    report.interrupted = pending !== null;
  } catch (error) {
    report.error = errorRecord(error);
  }
  return report;
}
