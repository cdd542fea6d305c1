import type { SourceConfig } from '../config/config.ts';
import type { StorageLocation } from '../context.ts';

/** Backend and place, for people: no secret is in it. */
export function describeLocation(location: StorageLocation): string {
  switch (location.backend) {
    case 'local':
      return location.path;
    case 'sftp':
      return `sftp://${location.user}@${location.host}:${location.port}${location.path}`;
    case 's3':
      return `s3://${location.bucket}/${location.prefix}`;
  }
}

/**
 * The stable identity of a source, as the catalog records it: the configured place, and nothing that changes
 * from run to run.
 */
export function sourceId(source: Exclude<SourceConfig, { backend: 'http_upload' }>): string {
  return describeLocation(source);
}
