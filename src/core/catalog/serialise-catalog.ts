import type { Owner } from '../identity.ts';
import { compareCodeUnits } from '../paths.ts';
import { WaybillError } from '../errors.ts';
import {
  catalogVersion,
  maxCatalogBytes,
  type Catalog,
  type GeneratedMetadata,
  type OutputRecord,
  type Pending,
  type PublishedBundle,
} from './catalog.ts';
import { holderToJson } from './holder-json.ts';

/**
 * The bytes of a `.publisher.json`: outputs sorted by path, one record per line, so that `diff` reads well.
 * Throws `catalog_too_large` for more than could be read again. Pure.
 */
export function serialiseCatalog(catalog: Catalog): Buffer {
  return joinLines(catalogLines(catalog));
}

/** The bytes that a record takes in the catalog. Pure. */
export function bytesOfRecord(record: OutputRecord): number {
  return Buffer.byteLength(JSON.stringify(recordToJson(record))) + '    ,\n'.length;
}

/** `place` is the bundle path or storage, `size` what the catalog would have at least, in bytes. */
export function catalogTooLarge(place: string, size: number): WaybillError {
  const mebibytes = (bytes: number): string => `${Math.ceil(bytes / 2 ** 20)} MiB`;
  return new WaybillError(
    'catalog_too_large',
    `${place}: the catalog would have at least ${mebibytes(size)}, and ${mebibytes(maxCatalogBytes)} is the most that is read; nothing was written`,
    { hint: 'publish fewer outputs to one bundle path: split the bundle, or use another path' },
  );
}

function* catalogLines(catalog: Catalog): Iterable<string> {
  const { pending } = catalog;
  yield '{';
  yield `  "schema_version": ${catalogVersion},`;
  yield `  "generation": ${catalog.generation},`;
  yield `  "updated_at": ${JSON.stringify(catalog.updatedAt)},`;
  if (catalog.bundles.length > 0)
    yield* listLines('  "bundles": ', sortedByOwner(catalog.bundles), bundleToJson, '  ', ',');
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

/** Lines are encoded in batches, so that a large catalog is never in memory as text and as bytes at once. */
const linesPerBatch = 512;

function joinLines(lines: Iterable<string>): Buffer {
  const parts: Buffer[] = [];
  let batch: string[] = [];
  let size = 0;
  const flush = (): void => {
    if (batch.length === 0) return;
    const part = Buffer.from(`${batch.join('\n')}\n`);
    size += part.byteLength;
    if (size > maxCatalogBytes) throw catalogTooLarge('the state', size);
    parts.push(part);
    batch = [];
  };
  for (const line of lines) if (batch.push(line) === linesPerBatch) flush();
  flush();
  return Buffer.concat(parts, size);
}

function sortedByPath(outputs: readonly OutputRecord[]): OutputRecord[] {
  return outputs.toSorted((a, b) => compareCodeUnits(a.path, b.path));
}

function sortedByOwner(bundles: readonly PublishedBundle[]): PublishedBundle[] {
  return bundles.toSorted(
    ({ owner: a }, { owner: b }) =>
      compareCodeUnits(a.pipelineId, b.pipelineId) || compareCodeUnits(a.destinationId, b.destinationId),
  );
}

function bundleToJson({ owner, source, created }: PublishedBundle): object {
  return { owner: ownerToJson(owner), source, created };
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
