import type { Catalog, CatalogState } from '../catalog/catalog.ts';
import { WaybillError } from '../errors.ts';

/** The catalog of a valid state; throws `state_conflict`, with a hint, for any other. Pure. */
export function requireCatalog(state: CatalogState): Catalog {
  switch (state.kind) {
    case 'valid':
      return state.catalog;
    case 'absent':
      throw new WaybillError('state_conflict', 'the state is gone; it was there a moment ago');
    case 'legacy':
      throw new WaybillError(
        'state_conflict',
        `the state has the superseded schema version ${state.version}`,
        { hint: 'publish once; that rewrites it as version 4' },
      );
    case 'future':
      throw new WaybillError(
        'state_conflict',
        `the state has schema version ${state.version}, which is newer than this waybill understands`,
        { hint: 'use a newer waybill' },
      );
    case 'invalid':
      throw new WaybillError('state_conflict', `the state is invalid: ${state.reason}`, {
        hint: 'restore it from a backup, or publish once with --force, which replaces everything below that path',
      });
  }
}
