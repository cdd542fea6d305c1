import type { Condition } from './conditions.ts';
import type { ObjectHeaders } from '../storage.ts';

/**
 * Under this name an object carries the SHA-256 of its bytes, in hexadecimal, as `x-amz-meta-waybill-sha256`.
 */
export const digestMetadata = 'waybill-sha256';

/** Versions are ETags without their quotes, so that they compare equal wherever they came from. */
export function unquoted(etag: string | undefined): string {
  return (etag ?? '').replace(/^"(.*)"$/, '$1');
}

function ifMatch({ version, form }: Extract<Condition, { version: string }>): string {
  return form === 'quoted' ? `"${version}"` : version;
}

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

export function conditionOf(condition: Condition | undefined): { IfNoneMatch?: string; IfMatch?: string } {
  if (condition === undefined) return {};
  return 'absent' in condition ? { IfNoneMatch: '*' } : { IfMatch: ifMatch(condition) };
}

/** The same as headers of HTTP. */
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

/**
 * Keys are asked for in URL encoding, since XML cannot hold all of them; a server that does not know it sends
 * them plain.
 */
export function decodeListed(encodingType: string | undefined): (name: string | undefined) => string {
  if (encodingType !== 'url') return (name = '') => name;
  return (name = '') => decodeURIComponent(name.replaceAll('+', ' '));
}
