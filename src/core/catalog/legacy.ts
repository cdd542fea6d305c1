import type { CatalogState, LegacyRecord } from './catalog.ts';
import {
  asArrayOf,
  asDigest,
  asInstant,
  asInteger,
  asObject,
  asPath,
  asString,
  Malformed,
} from './parse-fields.ts';

/**
 * Parses states of superseded versions. Any of them marks the bundle path as managed. Versions 2 and 3 also
 * list the managed files.
 *
 * v1 `{"version": 1, "published_at"}`; v2 `{"version": 2, "files": [path]}`; v3 `{"schema_version": 3,
 * "pipeline_id", "destination_id", "outputs": [{path, digest, size, updated_at}]}`. A malformed document
 * lists no files, because removing only some of the files of a damaged list would be wrong. Pure.
 */
export function parseLegacy(version: 1 | 2 | 3, document: Record<string, unknown>): CatalogState {
  return { kind: 'legacy', version, records: wholeOrNone(() => recordsOf[version](document)) };
}

function wholeOrNone(read: () => LegacyRecord[]): LegacyRecord[] {
  try {
    return read();
  } catch (error) {
    if (error instanceof Malformed) return [];
    throw error;
  }
}

const recordsOf: Record<1 | 2 | 3, (document: Record<string, unknown>) => LegacyRecord[]> = {
  1: () => [],
  2: (document) =>
    asArrayOf(document['files'] ?? [], 'files', (path) => ({ path: asPath(path, ''), v3: null })),
  3: (document) => {
    const owner = {
      pipelineId: asString(document['pipeline_id'], 'pipeline_id'),
      destinationId: asString(document['destination_id'], 'destination_id'),
    };
    return asArrayOf(document['outputs'], 'outputs', (item) => {
      const record = asObject(item, '');
      return {
        path: asPath(record['path'], 'path'),
        v3: {
          owner,
          digest: asDigest(record['digest'], 'digest'),
          size: asInteger(record['size'], 'size'),
          updatedAt: asInstant(record['updated_at'], 'updated_at'),
        },
      };
    });
  },
};
