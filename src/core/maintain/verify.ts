import { createHash } from 'node:crypto';
import { intentPaths, type OutputRecord } from '../catalog/catalog.ts';
import { readState, requireCatalog } from '../catalog/catalog-store.ts';
import { displayPath, requireManagedPaths } from '../catalog/managed-paths.ts';
import type { ActualContent } from '../catalog/settle.ts';
import { observeEach } from '../catalog/settle-interrupted.ts';
import { type ErrorRecord, errorRecord } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { type UnfinishedRelease, unfinishedRelease } from '../releases/describe.ts';
import type { Key } from '../storage/key.ts';
import type { Storage } from '../storage/storage.ts';
import { subdirectory } from '../storage/wrappers/subdirectory.ts';

interface VerifyOptions {
  concurrency: number;
  onBytes?: (count: number) => void;
  /** Only verify these paths; default: all of them. */
  subset?: Subset;
  /**
   * How long the destination keeps a release that has no pointer; null (the default) if it does not use
   * releases.
   */
  lingerMs?: number | null;
}

interface OutputDifference {
  path: string;
  problem: 'missing' | 'not_a_file' | 'size' | 'digest';
  expected: string;
  found: string | null;
}

export interface VerifyReport {
  /** The managed bundle path; `.` for the root. */
  destinationPath: string;
  /** How many outputs were compared with their records. */
  verified: number;
  /** How many outputs are not in the subset. */
  skipped: number;
  /** How many bytes were read. */
  bytes: number;
  /** Outputs that differ from their records. `expected` and `found` are digests, or sizes in bytes. */
  differing: OutputDifference[];
  /** Whether an attempt is unfinished. The paths that it may have touched were not read. */
  interrupted: boolean;
  /**
   * Set if this is a release that was not finished and has no pointer; null otherwise. In that case, readers
   * are not missing anything, and `interrupted` is false.
   */
  unfinishedRelease: UnfinishedRelease | null;
  /** The reason why this bundle path could not be verified; null otherwise. */
  error: ErrorRecord | null;
}

/**
 * Reads all recorded outputs of a destination completely, and compares them with their records. Up to
 * `concurrency` files are read at a time, and `onBytes` is called with the size of each chunk. Never writes.
 * Throws `bundle_not_found` if there is no state at the destination, or the storage's error if it cannot be
 * listed.
 */
export async function verify(root: Storage, options: VerifyOptions): Promise<VerifyReport[]> {
  const paths = await requireManagedPaths(root);
  const reports: VerifyReport[] = [];
  for (const path of paths) reports.push(await verifyPath(root, path, options));
  return reports;
}

async function verifyPath(root: Storage, path: Key | '', options: VerifyOptions): Promise<VerifyReport> {
  const storage = subdirectory(root, path);
  const destinationPath = displayPath(path);
  const report: VerifyReport = {
    destinationPath,
    verified: 0,
    skipped: 0,
    bytes: 0,
    differing: [],
    interrupted: false,
    unfinishedRelease: null,
    error: null,
  };
  try {
    const catalog = requireCatalog((await readState(storage)).state);
    const { outputs, pending } = catalog;
    const announced = intentPaths(pending);
    const known = outputs.filter(({ path }) => !announced.has(path));
    const { subset } = options;
    const selected =
      subset === undefined ? known : known.filter(({ path }) => isInSubset(subset, destinationPath, path));
    report.skipped = known.length - selected.length;
    const differing: OutputDifference[] = [];
    let bytes = 0;
    const { concurrency, onBytes } = options;
    const onNonFile = ({ path, digest }: OutputRecord): void =>
      void differing.push({ path, problem: 'not_a_file', expected: digest, found: null });
    await observeEach(storage, selected, { concurrency, onBytes, onNonFile }, (record, actual) => {
      bytes += actual?.size ?? 0;
      const difference = differenceOf(record, actual);
      if (difference !== null) differing.push(difference);
    });
    report.verified = selected.length;
    report.bytes = bytes;
    report.differing = differing.sort((a, b) => compareCodeUnits(a.path, b.path));
    report.unfinishedRelease = await unfinishedRelease(root, path, catalog, options.lingerMs ?? null);
    report.interrupted = pending !== null && report.unfinishedRelease === null;
  } catch (error) {
    report.error = errorRecord(error);
  }
  return report;
}

function differenceOf({ path, size, digest }: OutputRecord, actual: ActualContent): OutputDifference | null {
  if (actual === null) return { path, problem: 'missing', expected: digest, found: null };
  if (actual.size !== size) return { path, problem: 'size', expected: `${size}`, found: `${actual.size}` };
  if (actual.digest !== digest) return { path, problem: 'digest', expected: digest, found: actual.digest };
  return null;
}

/*
 * Splits all published paths into parts, so that verifying them can be spread over several days.
 */

/** One of several parts. `part` is between 1 and `parts`. */
export interface Subset {
  part: number;
  parts: number;
}

const subsetForm = /^(\d{1,4})\/(\d{1,4})$/;

/** Parses a subset such as `1/7`. Returns undefined if it is malformed. */
export function parseSubset(text: string): Subset | undefined {
  const [part = 0, parts = 0] = (subsetForm.exec(text) ?? []).slice(1).map(Number);
  return part >= 1 && part <= parts ? { part, parts } : undefined;
}

/**
 * Reports whether a published path is in this part. This depends on a hash of the path, so each path is in
 * exactly one part, and always in the same one.
 */
export function isInSubset({ part, parts }: Subset, destinationPath: string, path: string): boolean {
  const hash = createHash('sha256').update(`${destinationPath}/${path}`).digest();
  return hash.readUInt32BE(0) % parts === part - 1;
}
