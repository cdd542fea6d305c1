import type { Clock } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import type { Secrets } from '../lib/secrets.ts';
import type { Kinds, Settings } from '../lib/settings/declare.ts';
import type { PathBase } from '../lib/settings/values.ts';
import type { Storage } from './storage.ts';

/**
 * Everything that the rest of the program knows about one storage backend. A backend is a folder with a
 * `backend.ts` that declares a value of this type, a driver that loads the SDK, and one line in
 * `backends.ts`. Declaring loads no SDK: `open` imports the driver when it is called. Except for `open`, all
 * members are pure.
 *
 * `Document` is a location as the configuration file has it after the schema accepted it, with its defaults
 * filled in; `Location` is the same with units converted and paths absolute. Destinations may have settings
 * that sources lack.
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
  /** Why nothing may be published there, as `found …; expected …`; null if it may. */
  destinationFault(location: DestinationLocation): string | null;

  /** Files written side by side at a destination, 1 to 64, unless the configuration says otherwise. */
  readonly fileConcurrency: {
    files: number;
    /** Half a sentence for the reference, after "where"; null for the usual number. */
    because: string | null;
  };
  /** What a forced replacement at the root of the destination must not delete; null if it may clear it. */
  protectedRoot(location: DestinationLocation): ProtectedRoot | null;

  /** Loads the driver and opens the location. Throws `WaybillError`s, most with a `storage_*` code. */
  open(location: Location, context: StorageContext, options: OpenOptions): Promise<Storage>;
}

/** Places overlap if their containers are equal and one root is the other or an ancestor of it. */
export interface Place {
  /** What the root is within: this machine, a server, a bucket. */
  container: string;
  /** A path with `/` between its segments and none at its end; the root of the container is `/`. */
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
  /** What would be lost, as `the bucket`. */
  holder: string;
  /** What to change in the configuration. */
  hint: string;
}

/** What drivers need from the program. */
export interface StorageContext {
  clock: Clock;
  log: Log;
  secrets: Secrets;
}

export interface OpenOptions {
  /** Nothing may be changed: a source, or the destination of a dry run, which may leave no trace at all. */
  readOnly: boolean;
  /** A missing root is `storage_not_found`, as for sources, instead of being made by the first write. */
  mustExist?: boolean;
  /** Nothing is written on this machine either, such as the key of a new host. */
  dryRun?: boolean;
}
