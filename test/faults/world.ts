import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import path from 'node:path';
import type { Test } from 'tap';
import type { SourceBundle } from '../../src/core/bundle/source-bundle.ts';
import type { CatalogState } from '../../src/core/catalog/catalog.ts';
import { readState } from '../../src/core/catalog/catalog-store.ts';
import { defaultLeaseTimes } from '../../src/core/catalog/lease/lease.ts';
import { acquireLease } from '../../src/core/catalog/lease/with-lease.ts';
import type { DestinationConfig } from '../../src/core/config/config.ts';
import type { CoreContext } from '../../src/core/context.ts';
import { type Clock, systemClock } from '../../src/core/lib/clock.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import { silentLog } from '../../src/core/lib/log.ts';
import type { RelativePath } from '../../src/core/lib/paths.ts';
import { publishBundle } from '../../src/core/publish/publish-bundle.ts';
import type { ActionResult } from '../../src/core/publish/results/result.ts';
import { bytesBody, readAll } from '../../src/core/storage/body.ts';
import type { Owner } from '../../src/core/storage/identity.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import { localStorage } from '../../src/core/storage/local/local-storage.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { delegate } from '../../src/core/storage/wrappers/delegate.ts';
import { subdirectory } from '../../src/core/storage/wrappers/subdirectory.ts';
import { withRetry } from '../../src/core/storage/wrappers/with-retry.ts';
import { instant } from '../support/instant.ts';
import { memoryDirectory } from '../support/memory-directory.ts';
import { type MemoryDisk, memoryStorage } from '../support/memory-storage.ts';

/** A destination on which storages can be opened repeatedly, as after a restart. */
export interface World {
  name: string;
  open(): Promise<Storage>;
  /** The same, read-only, in the shortest way. */
  look?(): Promise<Storage>;
  /** Every file with its text, read without the storage under test. */
  files(): Promise<ReadonlyMap<string, string>>;
  /** Another destination with the same files, copied without publishing. */
  fork(): Promise<World>;
  /** Removes the files of a destination that is no longer needed. Some worlds remove them at the end. */
  drop?(): Promise<void>;
}

/** The conditional writes that a server supports determine how the lease is taken on an object store. */
const honoredBy = {
  'memory objects': 'full',
  'memory objects, create only': 'create',
  'memory objects, no conditions': 'none',
} as const;
export const worldKinds = [
  'memory files',
  'memory objects',
  'memory objects, create only',
  'memory objects, no conditions',
  'local',
] as const;
export type WorldKind = (typeof worldKinds)[number];

export function newWorld(kind: WorldKind, t: Test): World {
  return kind === 'local' ? localWorld(t) : memoryWorld(kind, new Map());
}

function localWorld(t: Test): World {
  const root = mkdtempSync(path.join(memoryDirectory(), 'waybill-worlds-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  let worlds = 0;
  const another = (): World & { directory: string } => {
    const directory = path.join(root, `world-${(worlds += 1)}`);
    mkdirSync(directory);
    return directoryWorld(directory, async () => localStorage(directory), another);
  };
  return another();
}

function memoryWorld(kind: Exclude<WorldKind, 'local'>, disk: MemoryDisk): World {
  return {
    name: kind,
    open: async () =>
      kind === 'memory files'
        ? memoryStorage({ disk, flavour: 'files' })
        : memoryStorage({ disk, flavour: 'objects', conditionalWrites: honoredBy[kind] }),
    files: async () => new Map(Array.from(disk, ([name, { bytes }]) => [name, bytes.toString()])),
    fork: async () => memoryWorld(kind, new Map(disk)),
  };
}

/** A read-only storage. */
export async function lookInto(world: World): Promise<Storage> {
  return world.look?.() ?? world.open();
}

/** A world in a local directory, with any kind of storage. `another` makes an empty one. */
export function directoryWorld(
  directory: string,
  open: () => Promise<Storage>,
  another: () => World & { directory: string },
): World & { directory: string } {
  return {
    name: 'local',
    directory,
    open,
    look: async () => localStorage(directory, { readOnly: true }),
    files: async () => new Map(existsSync(directory) ? filesBelow(directory, '') : []),
    async fork() {
      const forked = another();
      if (existsSync(directory)) copyTree(directory, forked.directory);
      return forked;
    },
    drop: async () => rmSync(directory, { recursive: true, force: true }),
  };
}

/** Synchronous: a world has a dozen files in memory, so asynchronous calls would cost more. */
function* filesBelow(directory: string, prefix: string): Iterable<[string, string]> {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const file = path.join(directory, entry.name);
    if (entry.isDirectory()) yield* filesBelow(file, `${prefix}${entry.name}/`);
    else if (entry.isSymbolicLink()) yield [`${prefix}${entry.name}`, `→ ${readlinkSync(file)}`];
    else yield [`${prefix}${entry.name}`, readFileSync(file, 'utf8')];
  }
}

function copyTree(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) copyTree(source, target);
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target);
    else copyFileSync(source, target);
  }
}

/**
 * Time that passes only during waits. A contender's wait for a dead holder takes no real time, and lease
 * renewals occur when due. Without a wait, a lease is never renewed: runs are instant.
 */
export function testClock(): Clock {
  let elapsed = 0;
  const beats = new Map<() => void, number>();
  const epoch = Date.parse('2026-11-20T00:00:00Z');
  return {
    // Timers run in real time: they are for unresponsive peers, which are real here.
    ...systemClock,
    now: () => new Date(epoch + elapsed),
    monotonic: () => elapsed,
    async sleep(ms, signal) {
      if (ms !== defaultLeaseTimes.renewEveryMs) {
        elapsed += ms;
        for (const [beat, due] of beats) if (due <= elapsed) beat();
        return;
      }
      let beat = (): void => undefined;
      const isDue = new Promise<void>((resolve) => (beat = resolve));
      beats.set(beat, elapsed + ms);
      await Promise.race([isDue, untilAborted(signal)]).finally(() => beats.delete(beat));
    },
  };
}

/** Rejects with the signal's reason. */
export async function untilAborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    if (signal?.aborted === true) reject(signal.reason as Error);
  });
}

export type Files = Readonly<Record<string, string>>;

export const owner: Owner = { pipelineId: 'maps', destinationId: 'web' };
export const otherOwner: Owner = { pipelineId: 'other', destinationId: 'web' };
export const bundlePath = 'bundle';

const defaultCreated = '2026-11-20T00:00:00Z';

export function bundleOf(files: Files, path = bundlePath): SourceBundle {
  return {
    identity: { backend: 'local', id: '/source', path },
    path,
    name: null,
    created: instant(defaultCreated),
    files: Object.entries(files).map(([name, text]) => ({
      path: name as RelativePath,
      kind: 'file',
      contentType: null,
      size: Buffer.byteLength(text),
      digest: digestOf(text),
      body: bytesBody(text),
    })),
    warnings: [],
  } as unknown as SourceBundle;
}

export function destinationOf(workflow: 'additive' | 'replacement', id = 'web'): DestinationConfig {
  return {
    id,
    location: { backend: 'local', path: '/destination' },
    mapping: 'preserve_relative',
    workflow,
    stale: 'publish',
    orphans: 'keep',
    publicBaseUrl: null,
    cacheControl: null,
    outputs: { checksums: false, archive: false, index: false, sceneMapPage: false },
    rootIndex: false,
    releases: null,
    prune: { enabled: true, keepLatest: 1, olderThanMs: null },
    limits: { maxRemoved: null },
    fileConcurrency: 1,
    maxRate: null,
  };
}

export function contextWith(clock: Clock): CoreContext {
  return {
    clock,
    log: silentLog,
    secrets: { get: () => undefined, require: () => '', warnings: [] },
    openStorage: async () => Promise.reject(new Error('not used')),
  };
}

export interface Publication {
  files: Files;
  workflow?: 'additive' | 'replacement';
  force?: boolean;
  dryRun?: boolean;
  as?: Owner;
  /** RFC 3339. */
  created?: string;
}

export async function publishTo(
  root: Storage,
  publication: Publication,
  clock: Clock = testClock(),
): Promise<ActionResult> {
  const as = publication.as ?? owner;
  return publishBundle(
    contextWith(clock),
    root,
    {
      bundle: { ...bundleOf(publication.files), created: instant(publication.created ?? defaultCreated) },
      owner: as,
      destination: destinationOf(publication.workflow ?? 'additive', as.destinationId),
      destinationPath: bundlePath,
    },
    { dryRun: publication.dryRun ?? false, force: publication.force ?? false },
  );
}

/** A storage that retries immediately. In production, there is a pause. */
export function retrying(storage: Storage, retries: number): Storage {
  return withRetry(storage, { policy: { retries, baseMs: 0, capMs: 0 }, clock: testClock() });
}

export async function put(storage: Storage, name: string, text: string): Promise<void> {
  await storage.write(listedKey(name), bytesBody(text), { mode: 'replace' });
}

/** Every file of the destination with its text. */
export async function snapshot(storage: Storage): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  for await (const { key, type } of storage.list('', { recursive: true })) {
    const target = type === 'link' ? await storage.readLink!(key) : null;
    files.set(key, target === null ? (await readAll(storage, key, 1 << 20)).toString() : `→ ${target}`);
  }
  return files;
}

export async function stateOf(root: Storage, path = bundlePath): Promise<CatalogState> {
  return (await readState(subdirectory(root, listedKey(path)))).state;
}

/** The content of a world, read once. */
export interface Look {
  files: ReadonlyMap<string, string>;
  state: CatalogState;
  /** In the format of `catalogMismatches`. */
  catalogMismatches: string[];
}

export async function lookAt(world: Pick<World, 'files'>): Promise<Look> {
  const files = await world.files();
  const prefix = `${bundlePath}/`;
  const below = Array.from(files).filter(([name]) => name.startsWith(prefix));
  const held = new Map(below.map(([name, text]) => [name.slice(prefix.length), text]));
  const { state } = await readState(holding(held));
  return { files, state, catalogMismatches: mismatchesIn(state, held) };
}

const nothing = memoryStorage({ flavour: 'files' });

/** A storage with these files, for reading. */
function holding(files: ReadonlyMap<string, string>): Storage {
  return delegate(nothing, {
    async *read(name) {
      const text = files.get(name);
      if (text === undefined) yield* nothing.read(name);
      else yield Buffer.from(text);
    },
  });
}

/** The permanent invariant: a state without an intent is accurate for every file it records. */
export async function catalogMismatches(root: Storage, path = bundlePath): Promise<string[]> {
  return mismatchesIn(await stateOf(root, path), await snapshot(subdirectory(root, listedKey(path))));
}

function mismatchesIn(state: CatalogState, files: ReadonlyMap<string, string>): string[] {
  if (state.kind !== 'valid' || state.catalog.pending !== null) return [];
  return state.catalog.outputs.flatMap((record) => {
    const text = files.get(record.path);
    if (text === undefined) return [`${record.path} is recorded and missing`];
    return digestOf(text) === record.digest
      ? []
      : [`${record.path} holds ${JSON.stringify(text)}, not the recorded bytes`];
  });
}

/** Names of the publisher that remain after a finished publication: only the state. */
export function leftovers(files: ReadonlyMap<string, string>): string[] {
  return [...files.keys()].filter(
    (name) => name.includes('.publisher') && !name.endsWith('/.publisher.json'),
  );
}

export async function leaseOf(
  root: Storage,
  clock: Clock,
  attemptId: string,
): ReturnType<typeof acquireLease> {
  return acquireLease(subdirectory(root, listedKey(bundlePath)), {
    clock,
    log: silentLog,
    attemptId,
    times: defaultLeaseTimes,
  });
}
