import { findCollisions } from '../paths.ts';
import {
  catalogVersion,
  type AttemptAction,
  type Catalog,
  type CatalogState,
  type OutputRecord,
  type Pending,
  type PublishedBundle,
} from './catalog.ts';
import { sameOwner } from '../identity.ts';
import { parseHolder } from './holder-json.ts';
import { parseLegacy } from './legacy.ts';
import {
  asArrayOf,
  asExactInstant,
  asInstant,
  asInteger,
  asObject,
  asOwner,
  asStoredKey,
  asString,
  Malformed,
  oneOf,
} from './parse-fields.ts';
import { parseSource, recordParser, type SourceBackends } from './parse-record.ts';
import { outputsApart, splitOutputs } from './record-lines.ts';

/**
 * Parses the bytes of a `.publisher.json`. Strict: whatever is not exactly a state of a known version is
 * `invalid`, with the reason, because a state that is half understood would be half kept. Only unknown keys
 * are tolerated (and dropped by the next commit). `backends` are the names that a source may have. Never
 * throws for what the bytes hold. Pure.
 */
export function parseState(bytes: Uint8Array, backends: SourceBackends): CatalogState {
  try {
    return parseByLines(bytes, backends) ?? parseWhole(parseJson(bytes), backends);
  } catch (error) {
    if (error instanceof Malformed) return { kind: 'invalid', reason: error.message };
    throw error;
  }
}

/** Null for what is not laid out as catalogs are written, and for what is malformed: the whole says where. */
function parseByLines(bytes: Uint8Array, backends: SourceBackends): CatalogState | null {
  const split = splitOutputs(bytes);
  if (split === null) return null;
  try {
    const document = parseJson(split.rest);
    if (document['outputs'] !== outputsApart || document['schema_version'] !== catalogVersion) return null;
    const parse = recordParser(backends);
    const outputs: OutputRecord[] = [];
    for (const line of split.lines) outputs.push(parse(JSON.parse(line)));
    return {
      kind: 'valid',
      catalog: parseCatalog(document, withoutCollisions(outputs, 'outputs'), backends),
    };
  } catch (error) {
    if (error instanceof Malformed || error instanceof SyntaxError) return null;
    throw error;
  }
}

function parseWhole(document: Record<string, unknown>, backends: SourceBackends): CatalogState {
  const version = document['schema_version'] ?? document['version'];
  if (typeof version !== 'number' || !Number.isInteger(version) || version < 1)
    throw new Malformed('schema_version', 'is not a positive integer');
  if (version > catalogVersion) return { kind: 'future', version };
  if (version < catalogVersion) return parseLegacy(version as 1 | 2 | 3, document);
  if (document['schema_version'] !== version) throw new Malformed('schema_version', 'is missing');
  const outputs = parseRecords(document['outputs'], 'outputs', backends);
  return { kind: 'valid', catalog: parseCatalog(document, outputs, backends) };
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

function parseCatalog(
  document: Record<string, unknown>,
  outputs: OutputRecord[],
  backends: SourceBackends,
): Catalog {
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
  return withoutCollisions(asArrayOf(value, at, recordParser(backends)), at);
}

function withoutCollisions(records: OutputRecord[], at: string): OutputRecord[] {
  const [collision] = findCollisions(records.map(({ path }) => path));
  if (collision !== undefined) throw new Malformed(`${at}[${collision.index}].path`, collision.reason);
  return records;
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
