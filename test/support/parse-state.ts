import { CanonicalReader } from '../../src/core/catalog/canonical-reader.ts';
import type { Catalog, CatalogState } from '../../src/core/catalog/catalog.ts';
import { parseInMemory, type SourceBackends } from '../../src/core/catalog/parse.ts';

/** Parses the bytes of a `.publisher.json`, whether or not they are in canonical form. */
export function parseState(bytes: Uint8Array, backends: SourceBackends): CatalogState {
  const catalog = readCanonical(bytes, backends);
  return catalog === null ? parseInMemory(bytes, backends) : { kind: 'valid', catalog };
}

/** Parses a catalog. Returns null if `serialiseCatalog` would not produce exactly these bytes. */
export function readCanonical(bytes: Uint8Array, backends: SourceBackends): Catalog | null {
  const reader = new CanonicalReader(backends);
  return reader.push(bytes) ? reader.catalog() : null;
}
