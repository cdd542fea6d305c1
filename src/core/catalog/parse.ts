import { errorMessage } from '../lib/errors.ts';
import { positionsIn } from '../lib/located-json/decode.ts';
import { examineJson } from '../lib/located-json/examine.ts';
import { measureJson } from '../lib/located-json/measure.ts';
import { findCollisions } from '../lib/paths.ts';
import { sameOwner, type SourceIdentity } from '../storage/identity.ts';
import {
  type AttemptAction,
  type Catalog,
  type CatalogState,
  catalogVersion,
  type GeneratedMetadata,
  type Holder,
  type LegacyRecord,
  type OutputRecord,
  type Pending,
  type PublishedBundle,
} from './catalog.ts';
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

/**
 * Parses the bytes of a `.publisher.json` in one go, which takes several times as much memory as
 * `CanonicalReader`. Parsing is strict: unless the state is well-formed and of a known version, the result is
 * `invalid` with the reason. Otherwise, a commit would lose the parts that we do not understand. The only
 * exception is unknown keys, which the next commit drops. `backends` contains the backends that a source may
 * have. Malformed content never throws.
 */
export function parseInMemory(bytes: Uint8Array, backends: SourceBackends): CatalogState {
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

/**
 * The maximum number of objects, arrays and commas in a state that is parsed as a whole. Half a million
 * records have 25 each. A server could otherwise fill the memory with a few hundred MiB of `{},{},…`.
 */
const maxStructure = 12_500_000;

function parseJson(bytes: Uint8Array): Record<string, unknown> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    const { containers, commas, colons } = measureJson(text);
    if (containers + commas > maxStructure) throw new Malformed('', `has more than ${maxStructure} values`);
    const document: unknown = JSON.parse(text);
    if (countKeys(document) !== colons) throw new Malformed('', duplicateKeyIn(text));
    return asObject(document, '');
  } catch (error) {
    if (error instanceof Malformed) throw error;
    throw new Malformed('', `is not JSON: ${errorMessage(error)}`);
  }
}

/** Counts without recursion, because a hostile document may be nested a million levels deep. */
function countKeys(document: unknown): number {
  let count = 0;
  const pending = [document];
  for (let value = pending.pop(); value !== undefined; value = pending.pop()) {
    if (typeof value !== 'object' || value === null) continue;
    const inner: unknown[] = Object.values(value);
    if (!Array.isArray(value)) count += inner.length;
    for (const each of inner) if (typeof each === 'object') pending.push(each);
  }
  return count;
}

/** `JSON.parse` keeps the last value of a key that appears twice. Other programs may keep the first. */
function duplicateKeyIn(text: string): string {
  const limits = { depth: maxStructure, containers: maxStructure, problems: 1 };
  const { offset = 0, message = 'a key appears twice' } = examineJson(text, { limits }).problems[0] ?? {};
  return `line ${positionsIn(text)(offset).line}: ${message}`;
}

/** Parses a document of the current version. Throws a `Malformed` error with the location of the problem. */
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

/** Parses the list of bundles, and makes sure that no owner has more than one. */
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

/** Parses a holder. Throws a `Malformed` error if the value is anything else. */
export function parseHolder(value: unknown, at: string): Holder {
  const holder = asObject(value, at);
  return {
    host: asString(holder['host'], `${at}.host`),
    pid: asInteger(holder['pid'], `${at}.pid`),
    bootId: asStringOrNull(holder['boot_id'], `${at}.boot_id`),
    process: asStringOrNull(holder['process'], `${at}.process`),
    // Older versions did not record the thread.
    thread: asStringOrNull(holder['thread'] ?? null, `${at}.thread`),
    instanceId: asString(holder['instance_id'], `${at}.instance_id`),
  };
}

export type SourceBackends = readonly SourceIdentity['backend'][];

/**
 * Returns a parser for the records of a state, which throws a `Malformed` error with the location inside the
 * record. If neighboring records have the same owner, source, kind or metadata, they share a single object.
 * With half a million records, that cuts the memory in half.
 */
export function recordParser(backends: SourceBackends): (value: unknown) => OutputRecord {
  const owners = shared(sameOwner);
  const sources = shared(sameSource);
  const metadata = shared(samePlainMetadata);
  const kinds = shared<string>((a, b) => a === b);
  return (value) => {
    const record = asObject(value, '');
    return {
      path: asPath(record['path'], 'path'),
      owner: owners(asOwner(asObject(record['owner'], 'owner'), 'owner')),
      source: sources(parseSource(asObject(record['source'], 'source'), backends)),
      kind: kinds(asString(record['kind'], 'kind')),
      digest: asDigest(record['digest'], 'digest'),
      size: asInteger(record['size'], 'size'),
      updatedAt: asInstant(record['updated_at'], 'updated_at'),
      generated: metadata(parseGenerated(asObject(record['generated'], 'generated'))),
      url: asUrlOrNull(record['url'], 'url'),
    };
  };
}

/** Parses a source. Throws a `Malformed` error. */
function parseSource(source: Record<string, unknown>, backends: SourceBackends): SourceIdentity {
  return {
    backend: oneOf(source['backend'], backends, 'source.backend'),
    id: asString(source['id'], 'source.id'),
    path: asString(source['path'], 'source.path'),
  };
}

/**
 * How many recent values to compare with. Records are sorted by path, so their neighbors tend to be similar.
 */
const maxRecent = 8;

/** Returns a function that replaces a value with an equal one that it has seen recently, if there is one. */
function shared<T>(isSame: (a: T, b: T) => boolean): (value: T) => T {
  const recent: T[] = [];
  return (value) => {
    for (const known of recent) if (isSame(known, value)) return known;
    if (recent.length === maxRecent) recent.pop();
    recent.unshift(value);
    return value;
  };
}

function sameSource(a: SourceIdentity, b: SourceIdentity): boolean {
  return a.backend === b.backend && a.id === b.id && a.path === b.path;
}

/**
 * Compares the metadata of listed files. Generated outputs always count as different: there are only a few,
 * and they have different inputs.
 */
function samePlainMetadata(a: GeneratedMetadata, b: GeneratedMetadata): boolean {
  return (
    a.generator === null &&
    b.generator === null &&
    a.contentType === b.contentType &&
    a.cacheControl === b.cacheControl
  );
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

/**
 * Parses a state from an older version. Whichever version it is, the bundle path is managed. Versions 2 and 3
 * also list the managed files.
 *
 * Version 1 is `{"version": 1, "published_at"}`, version 2 is `{"version": 2, "files": [path]}`, and version
 * 3 is `{"schema_version": 3, "pipeline_id", "destination_id", "outputs": [{path, digest, size,
 * updated_at}]}`. If a list is damaged, the result contains no files at all, because it would be wrong to
 * remove just some of them.
 */
function parseLegacy(version: 1 | 2 | 3, document: Record<string, unknown>): CatalogState {
  return { kind: 'legacy', version, records: allOrNone(() => recordsOf[version](document)) };
}

function allOrNone(read: () => LegacyRecord[]): LegacyRecord[] {
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
