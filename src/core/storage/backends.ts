import type { StorageBackend } from './backend.ts';
import { localBackend } from './local/backend.ts';
import { s3Backend } from './s3/backend.ts';
import { sftpBackend } from './sftp/backend.ts';

/** All storage backends, in the order of the reference. They are listed nowhere else. */
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

/** A backend whose type accepts the documents and locations of all backends. Pass it only its own. */
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

/** The kind of source that a pipeline or a published output has: a storage, or HTTP uploads. */
export type SourceBackend = BackendName | 'http_upload';
export const sourceBackends: readonly SourceBackend[] = [
  ...allBackends.map(({ name }) => name),
  'http_upload',
];

/** Checks at compile time that each backend is listed under its own name. */
function byName<const T extends { [Name in keyof T]: { readonly name: Name } }>(list: T): T {
  return list;
}

/** Describes the backend and the place for people. Contains no secrets. */
export function describeLocation(location: StorageLocation): string {
  return backendOf(location).describe(location);
}
