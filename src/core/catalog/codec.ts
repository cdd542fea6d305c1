import { compareCodeUnits, findCollisions } from '../paths.ts';
import {
  catalogVersion,
  type AttemptAction,
  type Catalog,
  type CatalogState,
  type GeneratedMetadata,
  type Holder,
  type OutputRecord,
  type Pending,
} from './catalog.ts';
import type { Owner, SourceIdentity } from '../identity.ts';
import { parseLegacy } from './legacy.ts';
import {
  asArrayOf,
  asDigest,
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
} from './shape.ts';

type SourceBackends = readonly SourceIdentity['backend'][];

/**
 * Reads the bytes of a `.publisher.json`. Strict: whatever is not exactly a state of a known version is
 * `invalid`, with the reason, because a state that is half understood would be half kept. Unknown keys alone
 * are tolerated (and dropped at the next commit). `backends` are the names that a source may have. Pure.
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

/**
 * Writes a catalog as `.publisher.json`: outputs sorted by path, one record a line, so that `diff` reads
 * well. Pure.
 */
export function serialiseCatalog(catalog: Catalog): Buffer {
  return joinLines(catalogLines(catalog));
}

function* catalogLines(catalog: Catalog): Iterable<string> {
  const { pending } = catalog;
  yield '{';
  yield `  "schema_version": ${catalogVersion},`;
  yield `  "generation": ${catalog.generation},`;
  yield `  "updated_at": ${JSON.stringify(catalog.updatedAt)},`;
  yield* listLines('  "outputs": ', sortedByPath(catalog.outputs), recordToJson, '  ', ',');
  if (pending === null) yield '  "pending": null';
  else {
    yield '  "pending": {';
    for (const [key, value] of Object.entries(pendingHead(pending)))
      yield `    ${JSON.stringify(key)}: ${JSON.stringify(value)},`;
    yield* listLines('    "outputs": ', pending.outputs, recordToJson, '    ', ',');
    yield* listLines('    "removes": ', pending.removes, (key) => key, '    ', '');
    yield '  }';
  }
  yield '}';
}

function* listLines<T>(
  head: string,
  values: readonly T[],
  toJson: (value: T) => unknown,
  indent: string,
  end: string,
): Iterable<string> {
  if (values.length === 0) {
    yield `${head}[]${end}`;
    return;
  }
  yield `${head}[`;
  for (const [index, value] of values.entries())
    yield `${indent}  ${JSON.stringify(toJson(value))}${index === values.length - 1 ? '' : ','}`;
  yield `${indent}]${end}`;
}

/**
 * So many lines become bytes at a time: a catalog of a hundred thousand records never stands in memory as
 * text as well.
 */
const linesAtOnce = 512;

function joinLines(lines: Iterable<string>): Buffer {
  const parts: Buffer[] = [];
  let some: string[] = [];
  const flush = (): void => {
    if (some.length > 0) parts.push(Buffer.from(`${some.join('\n')}\n`));
    some = [];
  };
  for (const line of lines) if (some.push(line) === linesAtOnce) flush();
  flush();
  return Buffer.concat(parts);
}

function sortedByPath(outputs: readonly OutputRecord[]): OutputRecord[] {
  return outputs.toSorted((a, b) => compareCodeUnits(a.path, b.path));
}

function recordToJson(record: OutputRecord): object {
  return {
    path: record.path,
    owner: ownerToJson(record.owner),
    source: record.source,
    kind: record.kind,
    digest: record.digest,
    size: record.size,
    updated_at: record.updatedAt,
    generated: generatedToJson(record.generated),
    url: record.url,
  };
}

function ownerToJson(owner: Owner): object {
  return { pipeline_id: owner.pipelineId, destination_id: owner.destinationId };
}

function generatedToJson({ contentType, cacheControl, generator }: GeneratedMetadata): object {
  return {
    ...(contentType === null ? {} : { content_type: contentType }),
    ...(cacheControl === null ? {} : { cache_control: cacheControl }),
    ...(generator === null ? {} : { generator }),
  };
}

function pendingHead(pending: Pending): object {
  return {
    attempt_id: pending.attemptId,
    owner: ownerToJson(pending.owner),
    action: pending.action,
    started_at: pending.startedAt,
    holder: pending.holder === null ? null : holderToJson(pending.holder),
    renewals: pending.renewals,
  };
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
    outputs,
    pending:
      document['pending'] === null ? null : parsePending(asObject(document['pending'], 'pending'), backends),
  };
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

export function holderToJson({ host, pid, bootId, process, thread, instanceId }: Holder): object {
  return { host, pid, boot_id: bootId, process, thread, instance_id: instanceId };
}

export function parseHolder(value: unknown, at: string): Holder {
  const holder = asObject(value, at);
  return {
    host: asString(holder['host'], `${at}.host`),
    pid: asInteger(holder['pid'], `${at}.pid`),
    bootId: asStringOrNull(holder['boot_id'], `${at}.boot_id`),
    process: asStringOrNull(holder['process'], `${at}.process`),
    // Holders that were written before threads were told apart have none.
    thread: asStringOrNull(holder['thread'] ?? null, `${at}.thread`),
    instanceId: asString(holder['instance_id'], `${at}.instance_id`),
  };
}
