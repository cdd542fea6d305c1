import type { Owner, SourceIdentity } from '../identity.ts';
import type { GeneratedMetadata, OutputRecord } from './catalog.ts';

/*
 * The text of a record in the catalog. It is put together by hand, from the few texts that many records share
 * and the few that each has for itself: a catalog has up to half a million records, and a publication reads
 * and writes each of them twice. All of it is pure.
 */

export const recordStart = '{"path":';

/** One line, without indent and comma. */
export function recordToJson(record: OutputRecord): string {
  const { path, digest, size, url } = record;
  return `${recordStart}${JSON.stringify(path)}${recordMiddle(record)}${digest}"${beforeSize}${size}${recordEnd(record)}${JSON.stringify(url)}}`;
}

/** What stands between the path and the digest. */
export function recordMiddle({
  owner,
  source,
  kind,
}: Pick<OutputRecord, 'owner' | 'source' | 'kind'>): string {
  return `,"owner":${ownerText(owner)},"source":${sourceText(source)},"kind":${JSON.stringify(kind)},"digest":"`;
}

/** What stands between the digest, with its quotation mark, and the size. */
export const beforeSize = ',"size":';

/** What stands between the size and the URL. */
export function recordEnd({ updatedAt, generated }: Pick<OutputRecord, 'updatedAt' | 'generated'>): string {
  return `,"updated_at":${JSON.stringify(updatedAt)},"generated":${generatedText(generated)},"url":`;
}

/** The bytes of the text, counted without making it. */
export function bytesOfRecord(record: OutputRecord): number {
  const { path, digest, size, url } = record;
  const own =
    bytesOfString(path) + digest.length + `${size}`.length + (url === null ? 4 : bytesOfString(url));
  return fixedBytes + own + sharedBytes(record);
}

const fixedBytes = recordStart.length + `"${beforeSize}}`.length;

/** The lengths of what this record shares with others; most have those of the one before. */
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

/** What JSON writes as it is, between quotation marks. */
const plain = /^[\x20\x21\x23-\x5b\x5d-\x7e]*$/;

function bytesOfString(text: string): number {
  return plain.test(text) ? text.length + 2 : Buffer.byteLength(JSON.stringify(text));
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
