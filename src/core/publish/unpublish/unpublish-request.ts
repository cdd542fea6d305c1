import type { Catalog, PublishedBundle } from '../../catalog/catalog.ts';
import type { Owner } from '../../identity.ts';
import type { LeaseTimes } from '../../lease/lease.ts';
import type { Layout, ReleaseId } from '../../releases/release.ts';
import type { Amount } from '../../settings/units.ts';
import type { DecidedOrphan } from './unpublication.ts';

export interface UnpublishRequest {
  owner: Owner;
  /** The bundle path, relative to the destination root; `.` for the root. */
  destinationPath: string;
  /** Which goes, where a change of layout has left both. */
  layout?: Layout;
  /** `limits.max_removed` of the destination; null allows any number. */
  maxRemoved: Amount | null;
  /** Report what would go; nothing is removed and no lease is taken. */
  dryRun: boolean;
  /** Files kept or removed at once. */
  concurrency: number;
  /** Set if a run removes what its source no longer holds. */
  orphan?: {
    runId: string | null;
    /** Whether the catalog still says what made it an orphan; asked under the lease, too. */
    isStill: (catalog: Catalog) => boolean;
    /** Called with each decision before anything follows from it: without the lease, and under it. */
    onDecided?: ((decided: DecidedOrphan) => void) | undefined;
  };
  /** Only tests pass their own. */
  leaseTimes?: LeaseTimes;
}

export interface UnpublishReport {
  destinationPath: string;
  /** The bundle that was published there; null if the catalog does not say. */
  bundle: PublishedBundle | null;
  /** Sorted. Also what an interrupted attempt of this owner wrote, or was still to remove. */
  outputs: string[];
  /** Bytes of the recorded ones. */
  bytes: number;
  /** Whose outputs stay, and with them the catalog; none if the catalog goes. */
  staying: Owner[];
  /** The releases that go; none in place. */
  releases: ReleaseId[];
}
