import { compareCodeUnits } from '../../lib/paths.ts';
import type { DestinationConfig } from '../../config/config.ts';
import { finding, type Finding } from '../../lib/errors.ts';
import { compareInstants, type Instant } from '../../lib/instant.ts';

export interface MappedBundle<T> {
  bundle: T;
  /** Relative to the destination root; `.` for the root. */
  destinationPath: string;
}

export interface MappableBundle {
  /** Relative to the source root; `.` for a bundle at the root. */
  path: string;
  created: Instant;
}

/**
 * Maps bundles to destination paths. `preserve_relative` maps every bundle to its own path, sorted by path.
 * `fixed` maps the newest bundle to the root, with a warning that names it. If several are equally new, the
 * first by path is chosen. Pure.
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
