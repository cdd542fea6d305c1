import type { StorageBackend } from './backend.ts';
import { localBackend } from './local/local-backend.ts';
import { s3Backend } from './s3/s3-backend.ts';
import { sftpBackend } from './sftp/sftp-backend.ts';

/** All storage backends, in the order in which the reference lists them. This is the only list. */
export const backends = byName({
  local: localBackend,
  sftp: sftpBackend,
  s3: s3Backend,
});

export type BackendName = keyof typeof backends;
type Backend = (typeof backends)[BackendName];

/** A location as written in the configuration file, with defaults filled in. */
export type LocationDocument = Parameters<Backend['resolve']>[0];
export type DestinationLocationDocument = Parameters<Backend['resolveDestination']>[0];
/** The location of a source or of shared staging. */
export type SourceLocation = ReturnType<Backend['resolve']>;
export type DestinationLocation = ReturnType<Backend['resolveDestination']>;
/** Any place that can be opened. */
export type StorageLocation = SourceLocation | DestinationLocation;

/** A backend whose types accept documents and locations of any backend. Only pass it its own ones. */
export type AnyBackend = StorageBackend<
  BackendName,
  LocationDocument,
  SourceLocation,
  DestinationLocationDocument,
  DestinationLocation
>;

export const allBackends: readonly AnyBackend[] = Object.values(backends);

/** Returns the backend of a document or a location. */
export function backendOf({ backend }: { backend: BackendName }): AnyBackend {
  return backends[backend];
}

/** The kind of source that a pipeline or published output has: a storage, or HTTP uploads. */
export type SourceBackend = BackendName | 'http_upload';
export const sourceBackends: readonly SourceBackend[] = [
  ...allBackends.map(({ name }) => name),
  'http_upload',
];

/** Makes sure, at compile time, that each backend is listed under its own name. */
function byName<const T extends { [Name in keyof T]: { readonly name: Name } }>(list: T): T {
  return list;
}

/** Describes the backend and the location, for use in messages. Contains no secrets. */
export function describeLocation(location: StorageLocation): string {
  return backendOf(location).describe(location);
}
