import type { BundleCandidate } from '../../bundle/discover.ts';
import type { SourceBundle } from '../../bundle/source-bundle.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { errorRecord, WaybillError, type ErrorRecord } from '../../errors.ts';
import type { Finding } from '../../finding.ts';
import { mapBundles, type MappedBundle } from './mapping.ts';
import type { PipelineResult } from '../results/result.ts';

/** What one destination gets. With an `error`, no bundle is selected. */
export interface Selection {
  bundles: MappedBundle<SourceBundle>[];
  warnings: Finding[];
  error: ErrorRecord | null;
}

/** How each destination gets its bundles. */
export interface Selector {
  select: (destination: DestinationConfig) => Promise<Selection>;
  /** Reads the source anew. Null for bundles that no source holds, as uploads are. */
  selectAgain: ((destination: DestinationConfig) => Promise<Selection>) | null;
}

export type InvalidBundle = PipelineResult['invalidBundles'][number];

/** Selects among bundles that are loaded already, as uploads are. */
export function selectLoaded(bundles: readonly SourceBundle[]): Selector {
  return {
    select: async ({ mapping }) => {
      const { selected, warnings } = mapBundles(mapping, bundles);
      return { bundles: selected, warnings, error: null };
    },
    selectAgain: null,
  };
}

/** What a source held when it was read. */
export interface SourceContent {
  candidates: readonly BundleCandidate[];
  invalid: readonly InvalidBundle[];
  loader: BundleLoader;
}

/**
 * Selects and loads the bundles of a source for one destination.
 *
 * At a destination that preserves paths, an invalid bundle only excludes itself. If the newest bundle is
 * selected, a bundle whose manifest cannot be read might be that one, and publishing an older one instead
 * would disguise a failure as a success: then nothing is selected.
 */
export async function selectFromSource(
  { mapping }: DestinationConfig,
  { candidates, invalid, loader }: SourceContent,
): Promise<Selection> {
  const { selected, warnings } = mapBundles(mapping, candidates);
  if (mapping === 'fixed' && invalid[0] !== undefined) {
    const error = new WaybillError(
      'invalid_bundle',
      `"${invalid[0].bundle}" has an invalid manifest, so it is not known which bundle is the newest`,
      { hint: 'mend or remove that bundle' },
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

/** Loads each bundle once for all destinations, and none that no destination selects. */
export class BundleLoader {
  readonly #read: (candidate: BundleCandidate) => Promise<SourceBundle>;
  readonly #loaded = new Map<string, Promise<SourceBundle | WaybillError>>();

  constructor(read: (candidate: BundleCandidate) => Promise<SourceBundle>) {
    this.#read = read;
  }

  /** The bundle, or its `invalid_bundle` error. Throws any other failure. */
  async load(candidate: BundleCandidate): Promise<SourceBundle | WaybillError> {
    const known = this.#loaded.get(candidate.path);
    if (known !== undefined) return known;
    const loading = this.#read(candidate).catch((error: unknown) => {
      if (error instanceof WaybillError && error.code === 'invalid_bundle') return error;
      throw error;
    });
    this.#loaded.set(candidate.path, loading);
    return loading;
  }

  /**
   * What was found out about the bundles that were loaded. One that could not be read is an error of the
   * destinations that selected it, and what they did before stays told.
   */
  async outcome(): Promise<{ invalid: InvalidBundle[]; warnings: Finding[] }> {
    const invalid: InvalidBundle[] = [];
    const warnings: Finding[] = [];
    for (const [path, loading] of this.#loaded) {
      const loaded = await loading.catch(() => null);
      if (loaded instanceof WaybillError) invalid.push({ bundle: path, error: errorRecord(loaded) });
      else warnings.push(...(loaded?.warnings ?? []));
    }
    return { invalid, warnings };
  }
}
