import type { Catalog, PublishedBundle } from '../../catalog/catalog.ts';
import type { Owner } from '../../storage/identity.ts';
import type { LeaseTimes } from '../../catalog/lease/lease.ts';
import type { Layout, ReleaseId } from '../../releases/release.ts';
import type { Amount } from '../../lib/settings/units.ts';
import type { DecidedOrphan } from './unpublication.ts';

export interface UnpublishRequest {
  owner: Owner;
  /** The bundle path, relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** The layout to remove. Needed if a change of layout left both. */
  layout?: Layout;
  /** `limits.max_removed` of the destination; null for no limit. */
  maxRemoved: Amount | null;
  /** Only report the removals. Removes nothing and takes no lease. */
  dryRun: boolean;
  /** The number of files kept or removed concurrently. */
  concurrency: number;
  /** Set if a run removes a bundle that its source no longer has. */
  orphan?: {
    runId: string | null;
    /** Whether the bundle is still an orphan according to its catalog. Called again under the lease. */
    isStill: (catalog: Catalog) => boolean;
    /** Called with each decision before it is applied: without the lease, and under it. */
    onDecided?: ((decided: DecidedOrphan) => void) | undefined;
  };
  /** Set only by tests. */
  leaseTimes?: LeaseTimes;
}

export interface UnpublishReport {
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not record it. */
  bundle: PublishedBundle | null;
  /** The removed paths, sorted. Includes paths of an interrupted attempt of this owner. */
  outputs: string[];
  /** The total size of the recorded outputs. */
  bytes: number;
  /** The owners of remaining outputs; empty if the catalog is removed. */
  staying: Owner[];
  /** The removed releases; empty with the in-place layout. */
  releases: ReleaseId[];
}
