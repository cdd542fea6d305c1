import type { StorageBackend } from './backend.ts';
import { localBackend } from './local/backend.ts';
import { s3Backend } from './s3/backend.ts';
import { sftpBackend } from './sftp/backend.ts';

/** Every storage backend, in the order of the reference: the only place that lists them. */
export const backends = byName({
  local: localBackend,
  sftp: sftpBackend,
  s3: s3Backend,
});

export type BackendName = keyof typeof backends;
type Backend = (typeof backends)[BackendName];

/** A location as the configuration file has it, with its defaults. */
export type LocationDocument = Parameters<Backend['resolve']>[0];
export type DestinationLocationDocument = Parameters<Backend['resolveDestination']>[0];
/** The location of a source, or of shared staging. */
export type SourceLocation = ReturnType<Backend['resolve']>;
export type DestinationLocation = ReturnType<Backend['resolveDestination']>;
/** Any place that can be opened. */
export type StorageLocation = SourceLocation | DestinationLocation;

/** A backend whose type accepts the documents and locations of all backends. It must only get its own. */
export type AnyBackend = StorageBackend<
  BackendName,
  LocationDocument,
  SourceLocation,
  DestinationLocationDocument,
  DestinationLocation
>;

export const allBackends: readonly AnyBackend[] = Object.values(backends);

/** The backend of a document or a location. */
export function backendOf({ backend }: { backend: BackendName }): AnyBackend {
  return backends[backend];
}

/** The kinds of sources, of a pipeline or of a published output: a storage, or uploads over HTTP. */
export type SourceBackend = BackendName | 'http_upload';
export const sourceBackends: readonly SourceBackend[] = [
  ...allBackends.map(({ name }) => name),
  'http_upload',
];

/** Holds each backend to the key that it is listed under. */
function byName<const T extends { [Name in keyof T]: { readonly name: Name } }>(list: T): T {
  return list;
}

/** Backend and place, for people: no secret is in it. */
export function describeLocation(location: StorageLocation): string {
  return backendOf(location).describe(location);
}
