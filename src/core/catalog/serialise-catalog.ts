import { WaybillError } from '../lib/errors.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import type { Body } from '../storage/storage.ts';
import { bytesOfRecord, ownerToJson, recordToJson } from './record-json.ts';
import {
  catalogVersion,
  maxCatalogBytes,
  maxPieceBytes,
  maxWholeCatalogBytes,
  type Catalog,
  type Pending,
  type PublishedBundle,
} from './catalog.ts';
import { holderToJson } from './holder-json.ts';

/**
 * The bytes of a `.publisher.json`: outputs sorted by path, one record per line so that `diff` is readable.
 * Each `open()` generates them again, because the text of half a million records takes 200 MB. Do not change
 * the catalog afterwards. Throws `catalog_too_large` if the result would be too large to read back. Pure.
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

/** The bytes of `catalogBody` in memory. Throws like `catalogBody`. Pure. */
export function serialiseCatalog(catalog: Catalog): Buffer {
  const sorted = inOrder(catalog);
  const size = readableBytesOf(sorted);
  return Buffer.concat([...inChunks(linesOf(sorted))], size);
}

/**
 * `place` is the bundle path or storage, `size` the minimum size of the catalog and `maxBytes` the limit,
 * both in bytes.
 */
export function catalogTooLarge(place: string, size: number, maxBytes: number): WaybillError {
  const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  return new WaybillError(
    'catalog_too_large',
    `${place}: the catalog would have at least ${mebibytes(size)}, more than the maximum of ${mebibytes(maxBytes)}; nothing was written`,
    { hint: 'publish fewer outputs to one bundle path: split the bundle, or use another path' },
  );
}

/** The size limit of a catalog, in bytes, if its longest record has `longest` bytes. Pure. */
export function maxBytesFor(longest: number): number {
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

/** A key with a list: one value per line, indented below the key. */
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

/** The size in bytes, computed without building the records. Throws `catalog_too_large`. */
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
    // The brackets are on separate lines: "[\n" and the indent of "]". The last record has no comma.
    if (records.length > 0) size += 1 + (indent - 2) - 1;
    for (const record of records) {
      const bytes = indent + bytesOfRecord(record) + ',\n'.length;
      size += bytes;
      if (bytes > longest) longest = bytes;
    }
  }
  const maxBytes = maxBytesFor(longest);
  if (size > maxBytes) throw catalogTooLarge('the catalog', size, maxBytes);
  return size;
}

/** Lines are encoded in batches, which is faster than one by one and takes less memory than all together. */
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
