import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Outage } from '../lib/retry.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { Kinds, Settings } from '../lib/settings/declare.ts';
import type { PathBase } from '../lib/settings/values.ts';
import type { Storage } from './storage.ts';

/**
 * The interface that each storage backend implements. A backend is a folder with a `backend.ts` that declares
 * a value of this type, a driver that loads the SDK, and one line in `backends.ts`. The declaration loads no
 * SDK: `open` imports the driver when it is called. All members except `open` are pure functions or
 * constants.
 *
 * `Document` is a location in the configuration file after validation, with its defaults filled in.
 * `Location` is the same with units converted and paths absolute. Destinations may have settings that sources
 * lack.
 */
export interface StorageBackend<
  Name extends string,
  Document extends { backend: Name },
  Location extends { backend: Name },
  DestinationDocument extends Document = Document,
  DestinationLocation extends Location = Location,
> {
  /** The value of `backend:` in the configuration and of `source.backend` in catalogs. Never rename it. */
  readonly name: Name;
  /** One sentence that describes `backend: <name>` in the JSON Schema and the reference. */
  readonly summary: string;

  /** Settings shared by sources, destinations and shared staging, by key, excluding `backend` itself. */
  settings(kinds: Kinds): Settings;
  /** Settings that only destinations have. */
  destinationSettings(kinds: Kinds): Settings;
  /** Groups of keys that must be set together or not at all. */
  readonly setTogether: readonly (readonly string[])[];
  resolve(document: Document, base: PathBase): Location;
  resolveDestination(document: DestinationDocument, base: PathBase): DestinationLocation;

  /** Returns the names of the environment variables needed to open the location. */
  secrets(location: Location): string[];
  /**
   * Describes the place for people, and serves as the source id in catalogs. The text is stable across runs
   * of the same configuration and contains no secrets.
   */
  describe(location: Location): string;
  /** Returns the physical place of the bytes, used to detect locations that are identical or nested. */
  place(location: Location): Place;
  /** Returns the local files and directories that the location uses, with the settings that name them. */
  localPaths(location: Location): LocalPath[];
  /** The setting to which findings about the place refer. */
  readonly placeSetting: string;
  /** Returns why the destination cannot be published to, as `found …; expected …`, or null if it can. */
  destinationFault(location: DestinationLocation): string | null;

  /** Default number of files written concurrently at a destination, 1 to 64. */
  readonly fileConcurrency: {
    files: number;
    /** A clause for the reference that follows "where", or null if the number is the usual one. */
    because: string | null;
  };
  /**
   * Returns the content at the root that a forced replacement must not delete, or null if the root may be
   * cleared.
   */
  protectedRoot(location: DestinationLocation): ProtectedRoot | null;

  /** Loads the driver and opens the location. Throws a `WaybillError`, usually with a `storage_*` code. */
  open(location: Location, context: StorageContext, options: OpenOptions): Promise<Storage>;
}

/** Places overlap if their containers are equal and one root is the other or an ancestor of it. */
export interface Place {
  /** What contains the root: this machine, a server or a bucket. */
  container: string;
  /**
   * An absolute path within the container, separated by `/` and without a trailing slash. The container's
   * root is `/`.
   */
  root: string;
}

/**
 * `content` is used for published files or their source. `private` means that only this process's user and
 * root may change the path.
 */
export type PathUse = 'content' | 'private';

export interface LocalPath {
  setting: string;
  /** An absolute path. */
  path: string;
  use: PathUse;
}

export interface ProtectedRoot {
  /** The object that would be lost, such as `the bucket`. */
  holder: string;
  /** The change to the configuration that avoids the loss. */
  hint: string;
}

/** Dependencies that are passed to drivers. */
export interface StorageContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** For drivers that retry parts of a call, which is also retried as a whole. */
  outage?: Outage;
}

export interface OpenOptions {
  /** Forbids all changes. Set for sources, and for destinations in a dry run. */
  readOnly: boolean;
  /**
   * If true, a missing root throws `storage_not_found`, as for sources. By default, the first write creates
   * the root.
   */
  mustExist?: boolean;
  /** Also forbids writes to this machine, such as recording a new host key. */
  dryRun?: boolean;
  /** The maximum rate of written content, in bytes per second. There is no limit if it is null or absent. */
  maxRate?: number | null;
}
