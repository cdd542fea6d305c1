import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { Kinds, Settings } from '../lib/settings/declare.ts';
import type { PathBase } from '../lib/settings/values.ts';
import type { Storage } from './storage.ts';

/**
 * The interface of a storage backend to the rest of the program. A backend is a folder with a `backend.ts`
 * that declares a value of this type, a driver that loads the SDK, and one line in `backends.ts`. The
 * declaration loads no SDK: `open` imports the driver when it is called. All members except `open` are
 * pure.
 *
 * `Document` is a location in the configuration file after validation, with its defaults filled in.
 * `Location` is the same with units converted and paths absolute. Destinations may have settings that
 * sources lack.
 */
export interface StorageBackend<
  Name extends string,
  Document extends { backend: Name },
  Location extends { backend: Name },
  DestinationDocument extends Document = Document,
  DestinationLocation extends Location = Location,
> {
  /** The value of `backend:` in the configuration, and of `source.backend` in catalogs: never renamed. */
  readonly name: Name;
  /** One sentence, the description of `backend: <name>` in the JSON Schema and the reference. */
  readonly summary: string;

  /** The settings of a source, a destination and of shared staging, by key; `backend` itself is not one. */
  settings(kinds: Kinds): Settings;
  /** Settings that only destinations have. */
  destinationSettings(kinds: Kinds): Settings;
  /** Groups of keys that are set together or not at all. */
  readonly setTogether: readonly (readonly string[])[];
  resolve(document: Document, base: PathBase): Location;
  resolveDestination(document: DestinationDocument, base: PathBase): DestinationLocation;

  /** Names of the environment variables that opening the location needs. */
  secrets(location: Location): string[];
  /**
   * The place, for people and as the source id in catalogs: two runs of one configuration get the same text,
   * and no secret is in it.
   */
  describe(location: Location): string;
  /** The physical place of the bytes, which shows whether two locations are the same or nested. */
  place(location: Location): Place;
  /** The files and directories of this machine that the location uses, with the settings that name them. */
  localPaths(location: Location): LocalPath[];
  /** The setting that findings about the place point at. */
  readonly placeSetting: string;
  /** The reason why a destination cannot be published to, as `found …; expected …`; null if there is none. */
  destinationFault(location: DestinationLocation): string | null;

  /** Default number of files written concurrently at a destination, 1 to 64. */
  readonly fileConcurrency: {
    files: number;
    /** Half a sentence for the reference, after "where"; null for the usual number. */
    because: string | null;
  };
  /** Content at the root that a forced replacement must not delete; null if it may clear the root. */
  protectedRoot(location: DestinationLocation): ProtectedRoot | null;

  /** Loads the driver and opens the location. Throws `WaybillError`s, most with a `storage_*` code. */
  open(location: Location, context: StorageContext, options: OpenOptions): Promise<Storage>;
}

/** Places overlap if their containers are equal and one root is the other or an ancestor of it. */
export interface Place {
  /** The environment of the root: this machine, a server, a bucket. */
  container: string;
  /**
   * An absolute path within the container, separated by `/`, without a trailing slash; `/` for the
   * container's root.
   */
  root: string;
}

/** `content`: published files or their source. `private`: only this process's user and root may change it. */
export type PathUse = 'content' | 'private';

export interface LocalPath {
  setting: string;
  /** Absolute. */
  path: string;
  use: PathUse;
}

export interface ProtectedRoot {
  /** The object that would be lost, such as `the bucket`. */
  holder: string;
  /** The change to the configuration that avoids the loss. */
  hint: string;
}

/** The dependencies that the program passes to drivers. */
export interface StorageContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
}

export interface OpenOptions {
  /** Forbids any change: for sources, and for the destinations of a dry run. */
  readOnly: boolean;
  /**
   * Throws `storage_not_found` for a missing root, as for sources. By default, the first write creates the
   * root.
   */
  mustExist?: boolean;
  /** Forbids writes on this machine, too, such as the key of a new host. */
  dryRun?: boolean;
  /** The maximum rate of written content, in bytes per second; null or absent: no limit. */
  maxRate?: number | null;
}
