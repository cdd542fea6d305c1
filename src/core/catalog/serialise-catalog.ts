import type { Owner, SourceIdentity } from '../identity.ts';
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
  const lines = new Lines();
  const { pending } = catalog;
  lines.add('{');
  lines.add(`  "schema_version": ${catalogVersion},`);
  lines.add(`  "generation": ${catalog.generation},`);
  lines.add(`  "updated_at": ${JSON.stringify(catalog.updatedAt)},`);
  if (catalog.bundles.length > 0)
    lines.addList('  "bundles": ', sortedByOwner(catalog.bundles), bundleToJson, ',');
  lines.addList('  "outputs": ', sortedByPath(catalog.outputs), recordToJson, ',');
  if (pending === null) lines.add('  "pending": null');
  else {
    lines.add('  "pending": {');
    for (const [key, value] of Object.entries(pendingHead(pending)))
      lines.add(`    ${JSON.stringify(key)}: ${JSON.stringify(value)},`);
    lines.addList('    "outputs": ', pending.outputs, recordToJson, ',');
    lines.addList('    "removes": ', pending.removes, JSON.stringify, '');
    lines.add('  }');
  }
  lines.add('}');
  return lines.bytes();
}

/** The bytes that a record takes in the catalog. Pure. */
export function bytesOfRecord(record: OutputRecord): number {
  return Buffer.byteLength(recordToJson(record)) + '    ,\n'.length;
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

/** Lines are encoded in batches, so that a large catalog is never in memory as text and as bytes at once. */
const linesPerBatch = 512;

class Lines {
  readonly #parts: Buffer[] = [];
  #batch: string[] = [];
  #size = 0;

  add(line: string): void {
    if (this.#batch.push(line) === linesPerBatch) this.#flush();
  }

  /** A key with a list, one value per line, indented below the key. */
  addList<T>(head: string, values: readonly T[], toJson: (value: T) => string, end: string): void {
    if (values.length === 0) {
      this.add(`${head}[]${end}`);
      return;
    }
    const indent = ' '.repeat(head.search(/\S/));
    const last = values.length - 1;
    this.add(`${head}[`);
    for (let index = 0; index < last; index += 1) this.add(`${indent}  ${toJson(values[index] as T)},`);
    this.add(`${indent}  ${toJson(values[last] as T)}`);
    this.add(`${indent}]${end}`);
  }

  bytes(): Buffer {
    this.#flush();
    return Buffer.concat(this.#parts, this.#size);
  }

  #flush(): void {
    if (this.#batch.length === 0) return;
    const part = Buffer.from(`${this.#batch.join('\n')}\n`);
    this.#size += part.byteLength;
    if (this.#size > maxCatalogBytes) throw catalogTooLarge('the state', this.#size);
    this.#parts.push(part);
    this.#batch = [];
  }
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

function bundleToJson({ owner, source, created }: PublishedBundle): string {
  return JSON.stringify({ owner: ownerToJson(owner), source, created });
}

/** Put together by hand, since a catalog has up to half a million records and writes each of them twice. */
function recordToJson({
  path,
  owner,
  source,
  kind,
  digest,
  size,
  updatedAt,
  generated,
  url,
}: OutputRecord): string {
  const known = `"owner":${ownerText(owner)},"source":${sourceText(source)},"kind":${JSON.stringify(kind)}`;
  const file = `"digest":${JSON.stringify(digest)},"size":${size},"updated_at":${JSON.stringify(updatedAt)}`;
  const derived = `"generated":${generatedText(generated)},"url":${JSON.stringify(url)}`;
  return `{"path":${JSON.stringify(path)},${known},${file},${derived}}`;
}

/** Many records share one owner, one source and one of a few kinds of metadata. */
function remembered<T extends object>(toJson: (value: T) => object): (value: T) => string {
  const texts = new WeakMap<T, string>();
  return (value) => {
    const known = texts.get(value);
    if (known !== undefined) return known;
    const text = JSON.stringify(toJson(value));
    texts.set(value, text);
    return text;
  };
}

const ownerText = remembered(ownerToJson);
const sourceText = remembered(({ backend, id, path }: SourceIdentity) => ({ backend, id, path }));
const generatedText = remembered(generatedToJson);

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
