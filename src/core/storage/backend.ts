import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Outage } from '../lib/retry.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { Kinds, Settings } from '../lib/settings/declare.ts';
import type { PathBase } from '../lib/settings/parse-values.ts';
import type { Storage } from './storage.ts';

/**
 * The interface that a storage backend has to implement. A backend consists of a folder with a value of this
 * type and a driver that loads the SDK, and a line in `backends.ts`. Declaring a backend does not load its
 * SDK. That happens in `open`, which imports the driver. Everything else is a constant or a pure function.
 *
 * A `Document` is a location from the configuration file, validated and with defaults filled in. In a
 * `Location`, units have also been converted and paths are absolute. Destinations may have settings that
 * sources do not have.
 */
export interface StorageBackend<
  Name extends string,
  Document extends { backend: Name },
  Location extends { backend: Name },
  DestinationDocument extends Document = Document,
  DestinationLocation extends Location = Location,
> {
  /**
   * The name used for `backend:` in the configuration and for `source.backend` in catalogs. It must never be
   * renamed.
   */
  readonly name: Name;
  /** A sentence about `backend: <name>`, for the JSON Schema and the reference. */
  readonly summary: string;

  /**
   * The settings that sources, destinations, and shared staging have in common, by key. `backend` is not
   * included.
   */
  settings(kinds: Kinds): Settings;
  destinationSettings(kinds: Kinds): Settings;
  /** Groups of keys that must either all be set or all be absent. */
  readonly setTogether: readonly (readonly string[])[];
  resolve(document: Document, base: PathBase): Location;
  resolveDestination(document: DestinationDocument, base: PathBase): DestinationLocation;

  /** Returns the environment variables that are needed to open the location. */
  secrets(location: Location): string[];
  /**
   * Describes the location in messages. Also serves as the source id in catalogs, so it must not change
   * between runs of the same configuration. Contains no secrets.
   */
  describe(location: Location): string;
  /**
   * Returns where the bytes physically are, so that locations can be checked for being identical or nested.
   * Symbolic links of this machine are resolved.
   */
  place(location: Location): StorageRoot;
  /**
   * Returns the local files and directories that the location uses, along with the settings they come from.
   */
  localPaths(location: Location): LocalPath[];
  /** The setting to mention if there is something wrong with the place. */
  readonly placeSetting: string;
  /**
   * Explains why the destination cannot be published to, in the form `found …; expected …`. Returns null if
   * it can.
   */
  destinationFault(location: DestinationLocation): string | null;

  /** The default number of files to write to a destination at the same time, from 1 to 64. */
  readonly fileConcurrency: {
    files: number;
    /**
     * Explains the number in the reference, as a clause that follows "where". null if it is the usual number.
     */
    because: string | null;
  };
  /**
   * Returns what would be lost if a forced replacement cleared the root. Returns null if the root may be
   * cleared.
   */
  protectedRoot(location: DestinationLocation): ProtectedRoot | null;

  /** Loads the driver and opens the location. Throws a `WaybillError`, usually with a `storage_*` code. */
  open(location: Location, context: StorageContext, options: OpenOptions): Promise<Storage>;
}

/**
 * Two places overlap if they are in the same container, and one root is the same as the other or contains it.
 */
export interface StorageRoot {
  /** The machine, server, or bucket that contains the root. */
  container: string;
  /** An absolute path in the container, without a trailing slash. The container's own root is `/`. */
  root: string;
}

/**
 * The purpose of a path. `content` means published files or their source. `private` means that only root and
 * the user that runs this process may change it.
 */
export type PathUse = 'content' | 'private';

interface LocalPath {
  setting: string;
  /** An absolute path. */
  path: string;
  use: PathUse;
}

interface ProtectedRoot {
  /** The thing that would be lost, for example `the bucket`. */
  holder: string;
  /** Suggests the configuration change that avoids the loss. */
  hint: string;
}

/** The dependencies of drivers. */
export interface StorageContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
  /** For drivers that retry parts of a call, which is also retried as a whole. */
  outage?: Outage;
}

export interface OpenOptions {
  /** Prevents all changes. Set for sources, and for destinations during a dry run. */
  readOnly: boolean;
  /**
   * If set, a missing root throws `storage_not_found`, which is what sources need. By default, the root is
   * created by the first write.
   */
  mustExist?: boolean;
  /** Also prevents writes to this machine, for example adding a host key to the known hosts file. */
  dryRun?: boolean;
  /** The maximum rate at which content is written, in bytes per second. null and undefined mean no limit. */
  maxRate?: number | null;
}
