import { findCollisions } from '../paths.ts';
import {
  catalogVersion,
  type AttemptAction,
  type Catalog,
  type CatalogState,
  type GeneratedMetadata,
  type OutputRecord,
  type Pending,
  type PublishedBundle,
} from './catalog.ts';
import { sameOwner, type SourceIdentity } from '../identity.ts';
import { parseHolder } from './holder-json.ts';
import { parseLegacy } from './legacy.ts';
import {
  asArrayOf,
  asDigest,
  asExactInstant,
  asInstant,
  asInteger,
  asObject,
  asOwner,
  asPath,
  asStoredKey,
  asString,
  asStringOrNull,
  asUrlOrNull,
  Malformed,
  oneOf,
} from './parse-fields.ts';

type SourceBackends = readonly SourceIdentity['backend'][];

/**
 * Parses the bytes of a `.publisher.json`. Strict: whatever is not exactly a state of a known version is
 * `invalid`, with the reason, because a state that is half understood would be half kept. Only unknown keys
 * are tolerated (and dropped by the next commit). `backends` are the names that a source may have. Never
 * throws for what the bytes hold. Pure.
 */
export function parseState(bytes: Uint8Array, backends: SourceBackends): CatalogState {
  try {
    const document = parseJson(bytes);
    const version = document['schema_version'] ?? document['version'];
    if (typeof version !== 'number' || !Number.isInteger(version) || version < 1)
      throw new Malformed('schema_version', 'is not a positive integer');
    if (version > catalogVersion) return { kind: 'future', version };
    if (version < catalogVersion) return parseLegacy(version as 1 | 2 | 3, document);
    if (document['schema_version'] !== version) throw new Malformed('schema_version', 'is missing');
    return { kind: 'valid', catalog: parseCatalog(document, backends) };
  } catch (error) {
    if (error instanceof Malformed) return { kind: 'invalid', reason: error.message };
    throw error;
  }
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

function parseCatalog(document: Record<string, unknown>, backends: SourceBackends): Catalog {
  const outputs = parseRecords(document['outputs'], 'outputs', backends);
  return {
    generation: asInteger(document['generation'], 'generation'),
    updatedAt: asInstant(document['updated_at'], 'updated_at'),
    bundles: parseBundles(document['bundles'] ?? [], backends),
    outputs,
    pending:
      document['pending'] === null ? null : parsePending(asObject(document['pending'], 'pending'), backends),
  };
}

/** One for each owner. */
function parseBundles(value: unknown, backends: SourceBackends): PublishedBundle[] {
  const bundles = asArrayOf(value, 'bundles', (item): PublishedBundle => {
    const bundle = asObject(item, '');
    return {
      owner: asOwner(asObject(bundle['owner'], 'owner'), 'owner'),
      source: parseSource(asObject(bundle['source'], 'source'), backends),
      created: asExactInstant(bundle['created'], 'created'),
    };
  });
  bundles.forEach(({ owner }, index) => {
    if (bundles.slice(0, index).some((earlier) => sameOwner(earlier.owner, owner)))
      throw new Malformed(`bundles[${index}].owner`, 'is there twice');
  });
  return bundles;
}

function parseRecords(value: unknown, at: string, backends: SourceBackends): OutputRecord[] {
  const records = asArrayOf(value, at, (item) => parseRecord(item, backends));
  const [collision] = findCollisions(records.map(({ path }) => path));
  if (collision !== undefined) throw new Malformed(`${at}[${collision.index}].path`, collision.reason);
  return records;
}

function parseRecord(value: unknown, backends: SourceBackends): OutputRecord {
  const record = asObject(value, '');
  return {
    path: asPath(record['path'], 'path'),
    owner: asOwner(asObject(record['owner'], 'owner'), 'owner'),
    source: parseSource(asObject(record['source'], 'source'), backends),
    kind: asString(record['kind'], 'kind'),
    digest: asDigest(record['digest'], 'digest'),
    size: asInteger(record['size'], 'size'),
    updatedAt: asInstant(record['updated_at'], 'updated_at'),
    generated: parseGenerated(asObject(record['generated'], 'generated')),
    url: asUrlOrNull(record['url'], 'url'),
  };
}

function parseSource(source: Record<string, unknown>, backends: SourceBackends): SourceIdentity {
  return {
    backend: oneOf(source['backend'], backends, 'source.backend'),
    id: asString(source['id'], 'source.id'),
    path: asString(source['path'], 'source.path'),
  };
}

function parseGenerated(generated: Record<string, unknown>): GeneratedMetadata {
  const generator = generated['generator'];
  return {
    contentType: asStringOrNull(generated['content_type'] ?? null, 'generated.content_type'),
    cacheControl: asStringOrNull(generated['cache_control'] ?? null, 'generated.cache_control'),
    generator: generator === undefined ? null : parseGenerator(asObject(generator, 'generated.generator')),
  };
}

function parseGenerator(generator: Record<string, unknown>): NonNullable<GeneratedMetadata['generator']> {
  return {
    name: asString(generator['name'], 'generated.generator.name'),
    version: asInteger(generator['version'], 'generated.generator.version'),
    inputs: asDigest(generator['inputs'], 'generated.generator.inputs'),
  };
}

const attemptActions = [
  'publish_new',
  'upsert_additive',
  'replace_catalog',
  'force_replace',
  'prune',
] as const satisfies AttemptAction[];

function parsePending(pending: Record<string, unknown>, backends: SourceBackends): Pending {
  return {
    attemptId: asString(pending['attempt_id'], 'pending.attempt_id'),
    owner: asOwner(asObject(pending['owner'], 'pending.owner'), 'pending.owner'),
    action: oneOf(pending['action'], attemptActions, 'pending.action'),
    startedAt: asInstant(pending['started_at'], 'pending.started_at'),
    holder: pending['holder'] === null ? null : parseHolder(pending['holder'], 'pending.holder'),
    renewals: asInteger(pending['renewals'], 'pending.renewals'),
    outputs: parseRecords(pending['outputs'], 'pending.outputs', backends),
    removes: asArrayOf(pending['removes'], 'pending.removes', (path) => asStoredKey(path, '')),
  };
}
