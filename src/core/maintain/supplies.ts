import { loadBundle } from '../bundle/discover.ts';
import { type OutputRecord, announcedPaths } from '../catalog/catalog.ts';
import { readState } from '../catalog/store.ts';
import type { DestinationConfig, PipelineConfig } from '../config/config.ts';
import type { CoreContext } from '../context.ts';
import type { Release } from '../lib/lifecycle.ts';
import { findBundles } from '../publish/selection/find-bundles.ts';
import { planOutputs } from '../publish/outputs.ts';
import { measure, storedBody } from '../storage/body.ts';
import { keyOf } from '../storage/key.ts';
import type { Body, Storage } from '../storage/storage.ts';
import { within } from '../storage/wrappers/within.ts';
import { managedPaths } from '../catalog/managed-paths.ts';

/*
 * Finds the content of damaged outputs for a repair.
 */

/** Verified content of a record. `from` is `source` or, for example, `destination "web"`. */
export interface Supply {
  from: string;
  body: Body;
}

/** Finds the content of a record published under `destinationPath`; null if no place has it. */
export type FindSupply = (destinationPath: string, record: OutputRecord) => Promise<Supply | null>;

/**
 * Searches the source of the pipeline first, then its other destinations. Skips a place that cannot be read,
 * with a warning in the log. Registers the opened storages with `onRelease`.
 */
export function supplies(
  context: CoreContext,
  pipeline: PipelineConfig,
  destination: DestinationConfig,
  onRelease: (release: Release) => void,
): FindSupply {
  const open = async (location: Parameters<CoreContext['openStorage']>[0]): Promise<Storage> => {
    const storage = await context.openStorage(location, { readOnly: true, mustExist: true, dryRun: true });
    onRelease(() => storage.close());
    return storage;
  };
  const places = [
    { from: 'source', find: lazily(() => fromSource(context, open, pipeline, destination)) },
    ...pipeline.destinations
      .filter(({ id }) => id !== destination.id)
      .map(({ id, location }) => ({
        from: `destination "${id}"`,
        find: lazily(async () => fromDestination(await open(location))),
      })),
  ];
  return async (destinationPath, record) => {
    for (const { from, find } of places) {
      try {
        const body = await (await find())(destinationPath, record);
        if (body !== null) return { from, body };
      } catch (error) {
        context.log.warn({ err: error, from }, 'reading content for a repair failed');
      }
    }
    return null;
  };
}

type FindBody = (destinationPath: string, record: OutputRecord) => Promise<Body | null>;

function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => (made ??= make());
}

/** Searches the outputs that the source would publish now. */
async function fromSource(
  context: CoreContext,
  open: (location: Parameters<CoreContext['openStorage']>[0]) => Promise<Storage>,
  pipeline: PipelineConfig,
  destination: DestinationConfig,
): Promise<FindBody> {
  const { id: pipelineId, source, sourceId, sceneMaps } = pipeline;
  if (source.backend === 'http_upload') return async () => null;
  const storage = await open(source);
  const { candidates } = await findBundles(context, storage, pipeline, { dryRun: true });
  const origin = { backend: source.backend, id: sourceId, sceneMaps };
  const owner = { pipelineId, destinationId: destination.id };
  return async (destinationPath, record) => {
    const candidate = candidates.find(({ path }) => path === record.source.path);
    if (candidate === undefined) return null;
    const bundle = await loadBundle(storage, candidate, origin);
    const options = { owner, destination, destinationPath, recorded: [record] };
    const output = (await planOutputs(bundle, options)).find(({ path }) => path === record.path);
    return output === undefined ? null : verified(output.body, record);
  };
}

/** Searches the records of another destination by digest, under any path. */
async function fromDestination(root: Storage): Promise<FindBody> {
  const places = new Map<string, { storage: Storage; record: OutputRecord }[]>();
  for (const path of await managedPaths(root)) {
    const storage = within(root, path);
    const { state } = await readState(storage);
    if (state.kind !== 'valid') continue;
    const announced = announcedPaths(state.catalog.pending);
    for (const record of state.catalog.outputs) {
      if (announced.has(record.path)) continue;
      const same = places.get(record.digest) ?? [];
      same.push({ storage, record });
      places.set(record.digest, same);
    }
  }
  return async (_destinationPath, wanted) => {
    for (const { storage, record } of places.get(wanted.digest) ?? []) {
      const body = await verified(
        storedBody(storage, { key: keyOf(record.path), size: wanted.size }),
        wanted,
      );
      if (body !== null) return body;
    }
    return null;
  };
}

async function verified(body: Body, { digest, size }: OutputRecord): Promise<Body | null> {
  if (body.size !== size) return null;
  const found = await measure(body.open()).catch(() => null);
  return found?.digest === digest && found.size === size ? body : null;
}
