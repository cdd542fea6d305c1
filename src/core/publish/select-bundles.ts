import type { BundleCandidate } from '../bundle/discover.ts';
import type { SourceBundle } from '../bundle/source-bundle.ts';
import type { DestinationConfig } from '../config/config.ts';
import type { ErrorCode } from '../lib/error-codes.ts';
import { type ErrorRecord, errorRecord, type Finding, finding, WaybillError } from '../lib/errors.ts';
import { compareInstants, type Instant } from '../lib/instant.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import type { PipelineResult } from './results/result.ts';

/*
 * Selects which bundles to publish to each destination.
 */

/** The bundles to publish to a destination. Empty if `error` is set. */
export interface BundleSelection {
  bundles: MappedBundle<SourceBundle>[];
  warnings: Finding[];
  error: ErrorRecord | null;
}

export interface Selector {
  select: (destination: DestinationConfig) => Promise<BundleSelection>;
  /**
   * Reads the source again and makes a new selection. null for bundles that have no source, such as uploads.
   */
  selectAgain: ((destination: DestinationConfig) => Promise<BundleSelection>) | null;
}

export type InvalidBundle = PipelineResult['invalidBundles'][number];

/** Selects from bundles that have been loaded already, such as uploads. */
export function selectLoaded(bundles: readonly SourceBundle[]): Selector {
  return {
    select: async ({ mapping }) => {
      const { selected, warnings } = mapBundles(mapping, bundles);
      return { bundles: selected, warnings, error: null };
    },
    selectAgain: null,
  };
}

/** The bundles found in a source. */
export interface SourceContent {
  candidates: readonly BundleCandidate[];
  invalid: readonly InvalidBundle[];
  loader: BundleLoader;
}

/**
 * Selects the bundles in a source to publish to one destination, and loads them.
 *
 * A destination that preserves paths gets every valid bundle. A destination with just the newest bundle gets
 * nothing at all if there is an invalid manifest: that bundle could be the newest, and publishing an older
 * one would cover up the problem.
 */
export async function selectFromSource(
  { mapping }: DestinationConfig,
  { candidates, invalid, loader }: SourceContent,
): Promise<BundleSelection> {
  const { selected, warnings } = mapBundles(mapping, candidates);
  if (mapping === 'fixed' && invalid[0] !== undefined) {
    const isOnly = candidates.length === 0 && invalid.length === 1;
    const error = isOnly
      ? new WaybillError('invalid_bundle', `the only bundle, "${invalid[0].bundle}", is invalid`, {
          hint: 'fix the errors of this bundle, and run again',
        })
      : new WaybillError(
          'invalid_bundle',
          `the bundle "${invalid[0].bundle}" is invalid and could be the newest, so nothing is published`,
          { hint: 'fix or remove that bundle' },
        );
    return { bundles: [], warnings, error: errorRecord(error) };
  }
  const bundles: MappedBundle<SourceBundle>[] = [];
  for (const { bundle: candidate, destinationPath } of selected) {
    const loaded = await loader.load(candidate);
    if (!(loaded instanceof WaybillError)) bundles.push({ bundle: loaded, destinationPath });
    else if (mapping === 'fixed') return { bundles: [], warnings, error: errorRecord(loaded) };
  }
  return { bundles, warnings, error: null };
}

/** Loads bundles. A bundle that goes to several destinations is only loaded once. */
export class BundleLoader {
  readonly #read: (candidate: BundleCandidate) => Promise<SourceBundle>;
  readonly #loaded = new Map<string, Promise<SourceBundle | WaybillError>>();

  constructor(read: (candidate: BundleCandidate) => Promise<SourceBundle>) {
    this.#read = read;
  }

  /** Loads a bundle. An invalid or untrusted bundle is returned as an error; other errors are thrown. */
  async load(candidate: BundleCandidate): Promise<SourceBundle | WaybillError> {
    const known = this.#loaded.get(candidate.path);
    if (known !== undefined) return known;
    const loading = this.#read(candidate).catch((error: unknown) => {
      if (isBundleError(error)) return error;
      throw error;
    });
    this.#loaded.set(candidate.path, loading);
    return loading;
  }

  /**
   * Returns the invalid bundles, and the warnings of all bundles that were loaded. Read errors are not
   * included, because the destinations that selected the bundle report them.
   */
  async outcome(): Promise<{ invalid: InvalidBundle[]; warnings: Finding[] }> {
    const invalid: InvalidBundle[] = [];
    const warnings: Finding[] = [];
    for (const [path, loading] of this.#loaded) {
      const loaded = await loading.catch(() => null);
      if (loaded instanceof WaybillError) invalid.push({ bundle: path, error: errorRecord(loaded) });
      else for (const warning of loaded?.warnings ?? []) warnings.push(warning);
    }
    return { invalid, warnings };
  }
}

/** Errors that make one bundle unusable but do not affect the others in its source. */
export const bundleErrors: readonly ErrorCode[] = [
  'invalid_bundle',
  'signature_missing',
  'signature_invalid',
  'signing_key_untrusted',
];

/** Reports whether this error only affects its own bundle. If so, the others can still be published. */
export function isBundleError(error: unknown): error is WaybillError {
  return error instanceof WaybillError && bundleErrors.includes(error.code);
}

export interface MappedBundle<T> {
  bundle: T;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
}

interface MappableBundle {
  /** Relative to the source root; `.` for a bundle at the root. */
  path: string;
  created: Instant;
}

/**
 * Assigns a destination path to each bundle. With `preserve_relative`, each bundle keeps its own path, and
 * the result is sorted by path. With `fixed`, only the newest bundle is published, at the root, and a warning
 * says which one it was. If several bundles are equally new, the first by path wins.
 */
export function mapBundles<T extends MappableBundle>(
  mapping: DestinationConfig['mapping'],
  bundles: readonly T[],
): { selected: MappedBundle<T>[]; warnings: Finding[] } {
  const sorted = [...bundles].sort((a, b) => compareCodeUnits(a.path, b.path));
  if (mapping === 'preserve_relative') {
    return { selected: sorted.map((bundle) => ({ bundle, destinationPath: bundle.path })), warnings: [] };
  }
  const [first, ...rest] = sorted;
  if (first === undefined) return { selected: [], warnings: [] };
  const newest = rest.reduce((best, bundle) => (isNewer(bundle, best) ? bundle : best), first);
  return {
    selected: [{ bundle: newest, destinationPath: '.' }],
    warnings: [selectionWarning(newest, rest.length)],
  };
}

function isNewer(a: MappableBundle, b: MappableBundle): boolean {
  return compareInstants(a.created, b.created) > 0;
}

function selectionWarning({ path, created }: MappableBundle, others: number): Finding {
  const passedOver =
    others === 0
      ? 'it is the only bundle'
      : `${others} other ${others === 1 ? 'bundle was' : 'bundles were'} not selected`;
  const message = `target=.: "${path}", created ${created}, was selected for the destination root; ${passedOver}`;
  return finding('warning', 'fixed_bundle_selected', message, { file: path });
}
