import type { ObjectHeaders } from '../../storage.ts';
import type { Condition } from '../wire.ts';

/** The metadata entry with the SHA-256 of an object in hexadecimal: `x-amz-meta-waybill-sha256`. */
const digestMetadata = 'waybill-sha256';

/** A version: an ETag without quotes, so that versions compare equal whichever answer they come from. */
export function unquoted(etag: string | undefined): string {
  return (etag ?? '').replace(/^"(.*)"$/, '$1');
}

function ifMatch({ version, form }: Extract<Condition, { version: string }>): string {
  return form === 'quoted' ? `"${version}"` : version;
}

/** Headers of an object as fields of an SDK command. `sha256` is null if it is not known beforehand. */
export function headersOf(
  { contentType, cacheControl }: ObjectHeaders,
  sha256: string | null,
): { ContentType?: string; CacheControl?: string; Metadata?: Record<string, string> } {
  return {
    ...(contentType === undefined ? {} : { ContentType: contentType }),
    ...(cacheControl === undefined ? {} : { CacheControl: cacheControl }),
    ...(sha256 === null ? {} : { Metadata: { [digestMetadata]: sha256 } }),
  };
}

/** The condition of a write as fields of an SDK command. */
export function conditionOf(condition: Condition | undefined): { IfNoneMatch?: string; IfMatch?: string } {
  if (condition === undefined) return {};
  return 'absent' in condition ? { IfNoneMatch: '*' } : { IfMatch: ifMatch(condition) };
}

/** What is copied, as the SDK sends it: it leaves escaping to the caller. */
export function copySource(bucket: string, { key, version }: { key: string; version?: string }): string {
  const source = `${bucket}/${escapePath(key)}`;
  return version === undefined ? source : `${source}?versionId=${encodeURIComponent(version)}`;
}

/** Escapes all but slashes and unreserved characters (RFC 3986, section 2.3), as signatures require. */
export function escapePath(key: string): string {
  return encodeURIComponent(key)
    .replaceAll('%2F', '/')
    .replaceAll(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Headers and condition as HTTP headers. */
export function plainHeaders(
  { contentType, cacheControl }: ObjectHeaders,
  sha256: string,
  condition: Condition | undefined,
): Record<string, string> {
  const { IfNoneMatch, IfMatch } = conditionOf(condition);
  return {
    'content-type': contentType ?? 'application/octet-stream',
    ...(cacheControl === undefined ? {} : { 'cache-control': cacheControl }),
    [`x-amz-meta-${digestMetadata}`]: sha256,
    ...(IfNoneMatch === undefined ? {} : { 'if-none-match': IfNoneMatch }),
    ...(IfMatch === undefined ? {} : { 'if-match': IfMatch }),
  };
}
