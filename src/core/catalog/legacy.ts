import type { CatalogState, LegacyRecord } from './catalog.ts';
import { asArray, asDigest, asInstant, asInteger, asObject, asPath, asString } from './shape.ts';

/**
 * Superseded states. Each is a managed sentinel: it says "this place is ours" and, as far as its version went, which files are.
 *
 * v1 `{"version": 1, "published_at"}`; v2 `{"version": 2, "files": [path]}`; v3 `{"schema_version": 3, "pipeline_id", "destination_id",
 * "outputs": [{path, digest, size, updated_at}]}`. Throws `Malformed` where the document is none of them. Pure.
 */
export function parseLegacy(version: 1 | 2 | 3, document: Record<string, unknown>): CatalogState {
  return { kind: 'legacy', version, records: recordsOf[version](document) };
}

const recordsOf: Record<1 | 2 | 3, (document: Record<string, unknown>) => LegacyRecord[]> = {
  1: () => [],
  2: (document) =>
    asArray(document['files'] ?? [], 'files').map((path, index) => ({
      path: asPath(path, `files[${index}]`),
      v3: null,
    })),
  3: (document) => {
    const owner = {
      pipelineId: asString(document['pipeline_id'], 'pipeline_id'),
      destinationId: asString(document['destination_id'], 'destination_id'),
    };
    return asArray(document['outputs'], 'outputs').map((item, index) => {
      const at = `outputs[${index}]`;
      const record = asObject(item, at);
      return {
        path: asPath(record['path'], `${at}.path`),
        v3: {
          owner,
          digest: asDigest(record['digest'], `${at}.digest`),
          size: asInteger(record['size'], `${at}.size`),
          updatedAt: asInstant(record['updated_at'], `${at}.updated_at`),
        },
      };
    });
  },
};
