import { sameOwner } from '../storage/identity.ts';
import { findCollisions } from '../lib/paths.ts';
import type { AttemptAction, Catalog, OutputRecord, Pending, PublishedBundle } from './catalog.ts';
import { parseHolder } from './holder-json.ts';
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

/** Parses a document of the current version. Throws `Malformed` with the place. Pure. */
export function parseCatalog(document: Record<string, unknown>, backends: SourceBackends): Catalog {
  return {
    outputs: parseRecords(document['outputs'], 'outputs', backends),
    generation: asInteger(document['generation'], 'generation'),
    updatedAt: asInstant(document['updated_at'], 'updated_at'),
    bundles: parseBundles(document['bundles'] ?? [], backends),
    pending:
      document['pending'] === null ? null : parsePending(asObject(document['pending'], 'pending'), backends),
  };
}

/** At most one per owner. */
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
      throw new Malformed(`bundles[${index}].owner`, 'is a duplicate');
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
  'unpublish',
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
