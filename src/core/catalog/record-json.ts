import type { Owner, SourceIdentity } from '../storage/identity.ts';
import type { GeneratedMetadata, OutputRecord } from './catalog.ts';

/*
 * The JSON text of a catalog record. A catalog has up to half a million records, and a publication reads and
 * writes each of them twice, so the text is assembled by hand from cached parts. Pure.
 */

export const recordStart = '{"path":';

/** One line, without indent and trailing comma. */
export function recordToJson(record: OutputRecord): string {
  const { path, digest, size, url } = record;
  return `${recordStart}${JSON.stringify(path)}${recordMiddle(record)}${digest}"${beforeSize}${size}${recordEnd(record)}${JSON.stringify(url)}}`;
}

/** The text between the path and the digest. */
export function recordMiddle({
  owner,
  source,
  kind,
}: Pick<OutputRecord, 'owner' | 'source' | 'kind'>): string {
  return `,"owner":${ownerText(owner)},"source":${sourceText(source)},"kind":${JSON.stringify(kind)},"digest":"`;
}

/** The text between the closing quote of the digest and the size. */
export const beforeSize = ',"size":';

/** The text between the size and the URL. */
export function recordEnd({ updatedAt, generated }: Pick<OutputRecord, 'updatedAt' | 'generated'>): string {
  return `,"updated_at":${JSON.stringify(updatedAt)},"generated":${generatedText(generated)},"url":`;
}

/** The length of the record's text in bytes, computed without building it. */
export function bytesOfRecord(record: OutputRecord): number {
  const { path, digest, size, url } = record;
  const own =
    bytesOfString(path) + digest.length + `${size}`.length + (url === null ? 4 : bytesOfString(url));
  return fixedBytes + own + sharedBytes(record);
}

const fixedBytes = recordStart.length + `"${beforeSize}}`.length;

/** The length of the parts shared with other records, cached for the next record. */
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

/** Strings that JSON writes without escapes. */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

function bytesOfString(text: string): number {
  return plain.test(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
}

/** Caches the JSON text of objects that many records share. */
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

export function ownerToJson(owner: Owner): object {
  return { pipeline_id: owner.pipelineId, destination_id: owner.destinationId };
}

function generatedToJson({ contentType, cacheControl, generator }: GeneratedMetadata): object {
  return {
    ...(contentType === null ? {} : { content_type: contentType }),
    ...(cacheControl === null ? {} : { cache_control: cacheControl }),
    ...(generator === null ? {} : { generator }),
  };
}
