import { WaybillError } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import type { Owner, SourceIdentity } from '../storage/identity.ts';
import type { Body } from '../storage/storage.ts';
import {
  type Catalog,
  catalogVersion,
  type GeneratedMetadata,
  type Holder,
  maxCatalogBytes,
  maxPieceBytes,
  maxWholeCatalogBytes,
  type OutputRecord,
  type Pending,
  type PublishedBundle,
} from './catalog.ts';

/**
 * Returns a `.publisher.json` with its outputs sorted by path. Each record is on a line of its own, so diffs
 * are easy to read. The bytes are generated each time the body is opened, since the text of half a million
 * records takes up 200 MB. Do not modify the catalog afterwards. Throws `catalog_too_large` if the result
 * would be too large to read back.
 */
export function catalogBody(catalog: Catalog): Body {
  const sorted = inOrder(catalog);
  const size = readableBytesOf(sorted);
  return {
    size,
    async *open() {
      yield* inChunks(linesOf(sorted));
    },
  };
}

/** Returns the bytes of `catalogBody` as a buffer. Throws the same errors. */
export function serialiseCatalog(catalog: Catalog): Buffer {
  const sorted = inOrder(catalog);
  const size = readableBytesOf(sorted);
  return Buffer.concat([...inChunks(linesOf(sorted))], size);
}

/**
 * Returns the error for a catalog that is too large. `place` is the bundle path or storage, `size` is the
 * minimum size of the catalog, and `maxBytes` is the limit (both in bytes).
 */
export function catalogTooLarge(place: string, size: number, maxBytes: number): WaybillError {
  const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  return new WaybillError(
    'catalog_too_large',
    `${place}: the catalog would have at least ${mebibytes(size)}, more than the maximum of ${mebibytes(maxBytes)}; nothing was written`,
    { hint: 'publish fewer outputs to one bundle path: split the bundle, or use another path' },
  );
}

/** Returns how large a catalog may be, in bytes, if its longest record has `longest` bytes. */
export function maxCatalogBytesFor(longest: number): number {
  return longest > maxPieceBytes ? maxWholeCatalogBytes : maxCatalogBytes;
}

function inOrder(catalog: Catalog): Catalog {
  return {
    ...catalog,
    bundles: catalog.bundles.toSorted(
      ({ owner: a }, { owner: b }) =>
        compareCodeUnits(a.pipelineId, b.pipelineId) || compareCodeUnits(a.destinationId, b.destinationId),
    ),
    outputs: catalog.outputs.toSorted((a, b) => compareCodeUnits(a.path, b.path)),
  };
}

function* linesOf({ generation, updatedAt, bundles, outputs, pending }: Catalog): Generator<string, void> {
  yield '{';
  yield `  "schema_version": ${catalogVersion},`;
  yield `  "generation": ${generation},`;
  yield `  "updated_at": ${JSON.stringify(updatedAt)},`;
  if (bundles.length > 0) yield* listLines('  "bundles": ', bundles, bundleToJson, ',');
  yield* listLines('  "outputs": ', outputs, recordToJson, ',');
  if (pending === null) yield '  "pending": null';
  else {
    yield '  "pending": {';
    for (const [key, value] of Object.entries(pendingHead(pending)))
      yield `    ${JSON.stringify(key)}: ${JSON.stringify(value)},`;
    yield* listLines('    "outputs": ', pending.outputs, recordToJson, ',');
    yield* listLines('    "removes": ', pending.removes, JSON.stringify, '');
    yield '  }';
  }
  yield '}';
}

/** Yields the lines for a key whose value is a list, with each item on its own indented line. */
function* listLines<T>(
  head: string,
  values: readonly T[],
  toJson: (value: T) => string,
  end: string,
): Generator<string, void> {
  if (values.length === 0) {
    yield `${head}[]${end}`;
    return;
  }
  const indent = ' '.repeat(head.search(/\S/));
  const last = values.length - 1;
  yield `${head}[`;
  for (let index = 0; index < last; index += 1) yield `${indent}  ${toJson(values[index] as T)},`;
  yield `${indent}  ${toJson(values[last] as T)}`;
  yield `${indent}]${end}`;
}

/** Computes the size in bytes without generating the records. Throws `catalog_too_large`. */
function readableBytesOf(catalog: Catalog): number {
  const { outputs, pending } = catalog;
  const others = { ...catalog, outputs: [], pending: pending && { ...pending, outputs: [] } };
  let size = 0;
  for (const line of linesOf(others)) size += Buffer.byteLength(line) + 1;
  let longest = size;
  for (const [records, indent] of [
    [outputs, 4],
    [pending?.outputs ?? [], 6],
  ] as const) {
    // The brackets are on lines of their own, so add "[\n" and the indentation of "]". The last record has no
    // comma.
    if (records.length > 0) size += 1 + (indent - 2) - 1;
    for (const record of records) {
      const bytes = indent + bytesOfRecord(record) + ',\n'.length;
      size += bytes;
      if (bytes > longest) longest = bytes;
    }
  }
  const maxBytes = maxCatalogBytesFor(longest);
  if (size > maxBytes) throw catalogTooLarge('the catalog', size, maxBytes);
  return size;
}

/**
 * How many lines to encode at a time. Faster than encoding them one by one, and takes less memory than
 * encoding all of them at once.
 */
const linesPerChunk = 256;

function* inChunks(lines: Iterable<string>): Generator<Buffer, void> {
  let batch: string[] = [];
  for (const line of lines) {
    if (batch.push(line) < linesPerChunk) continue;
    yield Buffer.from(`${batch.join('\n')}\n`);
    batch = [];
  }
  if (batch.length > 0) yield Buffer.from(`${batch.join('\n')}\n`);
}

function bundleToJson({ owner, source, created }: PublishedBundle): string {
  return JSON.stringify({ owner: ownerToJson(owner), source, created });
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

/** Returns a holder in the JSON form used by the lock file and the catalog. */
export function holderToJson({ host, pid, bootId, process, thread, instanceId }: Holder): object {
  return { host, pid, boot_id: bootId, process, thread, instance_id: instanceId };
}

/*
 * Generates the JSON text of catalog records. There can be half a million of them, and a publication reads
 * and writes each one twice, so the text is put together by hand from cached parts.
 */

const recordStart = '{"path":';

/** Returns the line for a record, without indentation or a comma at the end. */
export function recordToJson(record: OutputRecord): string {
  const { path, digest, size, url } = record;
  return `${recordStart}${JSON.stringify(path)}${recordMiddle(record)}${digest}"${beforeSize}${size}${recordEnd(record)}${JSON.stringify(url)}}`;
}

/** Returns the part between the path and the digest. */
function recordMiddle({ owner, source, kind }: Pick<OutputRecord, 'owner' | 'source' | 'kind'>): string {
  return `,"owner":${ownerText(owner)},"source":${sourceText(source)},"kind":${JSON.stringify(kind)},"digest":"`;
}

/** The part between the closing quote of the digest and the size. */
const beforeSize = ',"size":';

/** Returns the part between the size and the URL. */
function recordEnd({ updatedAt, generated }: Pick<OutputRecord, 'updatedAt' | 'generated'>): string {
  return `,"updated_at":${JSON.stringify(updatedAt)},"generated":${generatedText(generated)},"url":`;
}

/** Returns the length of a record's text in bytes without generating the text. */
export function bytesOfRecord(record: OutputRecord): number {
  const { path, digest, size, url } = record;
  const own =
    bytesOfString(path) + digest.length + `${size}`.length + (url === null ? 4 : bytesOfString(url));
  return fixedBytes + own + sharedBytes(record);
}

const fixedBytes = recordStart.length + `"${beforeSize}}`.length;

/**
 * Returns the length of the parts that a record shares with others. The result is cached for the next record.
 */
function sharedBytes(record: OutputRecord): number {
  const { owner, source, kind, updatedAt, generated } = record;
  if (
    last?.owner !== owner ||
    last.source !== source ||
    last.kind !== kind ||
    last.updatedAt !== updatedAt ||
    last.generated !== generated
  ) {
    const bytes = Buffer.byteLength(recordMiddle(record)) + Buffer.byteLength(recordEnd(record));
    last = { owner, source, kind, updatedAt, generated, bytes };
  }
  return last.bytes;
}

let last:
  | (Pick<OutputRecord, 'owner' | 'source' | 'kind' | 'updatedAt' | 'generated'> & { bytes: number })
  | undefined;

/** Matches strings that need no escapes in JSON. */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

function bytesOfString(text: string): number {
  return plain.test(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
}

/**
 * Wraps `toJson` so that the text of an object is only generated once. Many records share the same objects.
 */
function memoize<T extends object>(toJson: (value: T) => object): (value: T) => string {
  const texts = new WeakMap<T, string>();
  return (value) => {
    const known = texts.get(value);
    if (known !== undefined) return known;
    const text = JSON.stringify(toJson(value));
    texts.set(value, text);
    return text;
  };
}

const ownerText = memoize(ownerToJson);
const sourceText = memoize(({ backend, id, path }: SourceIdentity) => ({ backend, id, path }));
const generatedText = memoize(generatedToJson);

function ownerToJson(owner: Owner): object {
  return { pipeline_id: owner.pipelineId, destination_id: owner.destinationId };
}

function generatedToJson({ contentType, cacheControl, generator }: GeneratedMetadata): object {
  return {
    content_type: contentType ?? undefined,
    cache_control: cacheControl ?? undefined,
    generator: generator ?? undefined,
  };
}
