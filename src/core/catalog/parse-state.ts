import { readCanonical } from './canonical/reader.ts';
import { catalogVersion, type CatalogState } from './catalog.ts';
import { parseLegacy } from './legacy.ts';
import { parseCatalog } from './parse-catalog.ts';
import { asObject, Malformed } from './parse-fields.ts';
import type { SourceBackends } from './parse-record.ts';

/**
 * Parses the bytes of a `.publisher.json`. Strict: anything but a well-formed state of a known version is
 * `invalid`, with the reason, because a commit would lose the parts that were not understood. Only unknown
 * keys are tolerated, and the next commit drops them. `backends` lists the valid backends of a source. Never
 * throws because of the content. Pure.
 */
export function parseState(bytes: Uint8Array, backends: SourceBackends): CatalogState {
  const catalog = readCanonical(bytes, backends);
  return catalog === null ? parseWhole(bytes, backends) : { kind: 'valid', catalog };
}

/** Like `parseState`, but parses the whole document at once. Takes several times the memory. */
export function parseWhole(bytes: Uint8Array, backends: SourceBackends): CatalogState {
  try {
    return parseDocument(parseJson(bytes), backends);
  } catch (error) {
    if (error instanceof Malformed) return { kind: 'invalid', reason: error.message };
    throw error;
  }
}

function parseDocument(document: Record<string, unknown>, backends: SourceBackends): CatalogState {
  const version = document['schema_version'] ?? document['version'];
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 1)
    throw new Malformed('schema_version', 'is not a positive integer');
  if (version > catalogVersion) return { kind: 'future', version };
  if (version < catalogVersion) return parseLegacy(version as 1 | 2 | 3, document);
  if (document['schema_version'] !== version) throw new Malformed('schema_version', 'is missing');
  return { kind: 'valid', catalog: parseCatalog(document, backends) };
}

function parseJson(bytes: Uint8Array): Record<string, unknown> {
  let document: unknown;
  try {
    document = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw new Malformed('', `is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  return asObject(document, '');
}
