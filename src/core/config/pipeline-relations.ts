import { isRecord } from '../lib/json-document.ts';
import { check, type KeyPath } from '../lib/settings/check.ts';
import type { PathBase } from '../lib/settings/parse-values.ts';
import type { StorageRoot } from '../storage/backend.ts';
import { backendOf } from '../storage/backends.ts';
import type { SourceConfig } from './config.ts';
import { type Fault, fault } from './faults.ts';
import { resolveSource } from './resolve.ts';
import { destinationSchema, sourceSchema } from './schema/locations.ts';

/** An item of a list in the raw document. */
export interface Item {
  value: unknown;
  path: KeyPath;
}

/**
 * Checks the settings of a pipeline against each other. Paths are compared as they are, without following
 * symbolic links.
 */
export function pipelineFaults(pipeline: Item, base: PathBase): Fault[] {
  const destinations = itemsOf(pipeline.value, 'destinations', pipeline.path);
  return [
    ...locationFaults(pipeline, base),
    ...orphanFaults(pipeline),
    ...linkFaults(pipeline),
    ...destinations.flatMap(rootIndexFaults),
    ...destinations.flatMap(layoutFaults),
    ...destinations.flatMap(signatureFaults),
    ...scheduleFaults(pipeline),
  ];
}

function locationFaults(pipeline: Item, base: PathBase): Fault[] {
  const source = check(sourceSchema.required(), mapIn(pipeline.value)['source']);
  const sourcePlace = source.ok ? placeOf(resolveSource(source.value, base)) : undefined;
  const earlier = new Map<string, number>();
  return itemsOf(pipeline.value, 'destinations', pipeline.path).flatMap(({ value, path }, index): Fault[] => {
    const checked = check(destinationSchema, value);
    if (!checked.ok) return [];
    const destination = checked.value;
    const backend = backendOf(destination);
    const location = backend.resolveDestination(destination, base);
    const at = [...path, backend.placeSetting];
    const unfit = backend.destinationFault(location);
    if (unfit !== null) return [fault('invalid_value', at, unfit)];
    const place = backend.place(location);

    const faults: Fault[] = [];
    const key = JSON.stringify([place.container, place.root]);
    const same = earlier.get(key);
    if (same === undefined) earlier.set(key, index);
    else
      faults.push(
        fault(
          'same_location',
          at,
          `destinations[${same}] has the same location; give each destination of a pipeline its own`,
        ),
      );

    const how = sourcePlace === undefined ? null : overlapOf(place, sourcePlace);
    if (how !== null) {
      const message = `this location ${how} the source of the pipeline, so waybill would publish its own output again; choose separate locations`;
      faults.push(fault('overlapping_locations', at, message));
    }
    return faults;
  });
}

/**
 * Checks `orphans`. It needs a source that can be listed, which rules out uploads, and a mapping that keeps
 * several bundles, which rules out `fixed`.
 */
function orphanFaults({ value: pipeline, path }: Item): Fault[] {
  const isUpload = textOf(mapIn(pipeline)['source'], 'backend') === 'http_upload';
  return itemsOf(pipeline, 'destinations', path).flatMap(({ value, path: at }): Fault[] => {
    const orphans = textOf(value, 'orphans');
    if (orphans !== 'report' && orphans !== 'remove') return [];
    if (!isUpload && textOf(value, 'mapping') !== 'fixed') return [];
    const why = isUpload
      ? 'waybill cannot list the bundles that clients of http_upload still have'
      : 'mapping fixed publishes one bundle only';
    return [fault('invalid_value', [...at, 'orphans'], `must be keep, or left out, because ${why}`)];
  });
}

/** Checks `links_to`, which only makes sense if links are followed. */
function linkFaults({ value: pipeline, path }: Item): Fault[] {
  const source = mapIn(pipeline)['source'];
  const linksTo = mapIn(source)['links_to'];
  if (!Array.isArray(linksTo) || linksTo.length === 0 || textOf(source, 'links') === 'follow') return [];
  const message = 'links are not followed here; expected links: follow next to links_to';
  return [fault('invalid_value', [...path, 'source', 'links_to'], message)];
}

/** Checks `root_index`. It cannot be used with `fixed`, where the root is a bundle path itself. */
function rootIndexFaults({ value, path }: Item): Fault[] {
  const outputs = mapIn(mapIn(value)['outputs']);
  if (outputs['root_index'] !== true || textOf(value, 'mapping') !== 'fixed') return [];
  const message =
    'mapping fixed publishes one bundle, at the root itself; expected false, or mapping: preserve_relative';
  return [fault('invalid_value', [...path, 'outputs', 'root_index'], message)];
}

/**
 * Makes sure that outputs are not signed if the workflow is `additive`. A signature covers a single bundle,
 * but `additive` keeps the outputs of earlier ones.
 */
function signatureFaults({ value, path }: Item): Fault[] {
  const isSigned = mapIn(mapIn(value)['outputs'])['signature'] !== undefined;
  if (!isSigned || textOf(value, 'workflow') === 'replacement') return [];
  const message =
    'the signature would not cover outputs of earlier bundles, which workflow: additive keeps; expected workflow: replacement';
  return [fault('invalid_value', [...path, 'outputs', 'signature'], message)];
}

/** Finds settings of a destination that do not work with its layout. */
function layoutFaults({ value, path }: Item): Fault[] {
  const settings = mapIn(value);
  if (settings['layout'] === 'releases') {
    if (mapIn(mapIn(settings['retention'])['prune'])['enabled'] !== true) return [];
    const message =
      'releases are kept and removed as a whole, by releases.keep; expected false, or layout: in_place';
    return [fault('invalid_value', [...path, 'retention', 'prune', 'enabled'], message)];
  }
  if (settings['releases'] === undefined) return [];
  const message =
    'it limits kept releases, and layout: in_place has none; set layout: releases, or leave it out';
  return [fault('invalid_value', [...path, 'releases'], message)];
}

/** Settings that do nothing unless another one is set. */
const companions = {
  timezone: 'schedule',
  catch_up: 'schedule',
  jitter: 'schedule',
  settle: 'watch',
} as const;

/** Checks the settings that start runs, against each other and against the source. */
function scheduleFaults({ value, path }: Item): Fault[] {
  const settings = mapIn(value);
  const has = (key: string): boolean => settings[key] !== undefined && settings[key] !== false;
  const backend = mapIn(settings['source'])['backend'];
  const unfitting = (['schedule', 'watch'] as const).flatMap((key) => {
    const reason = has(key) ? unfit(key, backend) : null;
    return reason === null ? [] : [fault('invalid_value', [...path, key], reason)];
  });
  const alone = Object.entries(companions)
    .filter(([key, needed]) => has(key) && !has(needed))
    .map(([key, needed]) => {
      const message = `it applies only to ${needed}, which is not set; set ${needed}, or leave it out`;
      return fault('invalid_value', [...path, key], message);
    });
  return [...unfitting, ...alone];
}

function unfit(key: 'schedule' | 'watch', backend: unknown): string | null {
  if (backend === 'http_upload')
    return `${key} cannot be used with backend: http_upload, whose runs start when an upload arrives; leave ${key} out, or read from a ${key === 'watch' ? 'local' : 'local, sftp or s3'} source`;
  if (key === 'watch' && typeof backend === 'string' && backend !== 'local')
    return `only a source with backend: local can be watched, and this is ${backend}; use schedule: "*/5 * * * *" instead`;
  return null;
}

function placeOf(source: SourceConfig): StorageRoot | undefined {
  return source.backend === 'http_upload' ? undefined : backendOf(source).place(source);
}

/**
 * Returns the verb for two places of which one is inside the other: `a` "is", "is inside" or "contains" `b`.
 * If they are separate, returns null.
 */
export function overlapOf(a: StorageRoot, b: StorageRoot): 'is' | 'is inside' | 'contains' | null {
  const isInside = (inner: string, outer: string): boolean =>
    inner.startsWith(outer.endsWith('/') ? outer : `${outer}/`);
  if (a.container !== b.container) return null;
  if (a.root === b.root) return 'is';
  if (isInside(a.root, b.root)) return 'is inside';
  return isInside(b.root, a.root) ? 'contains' : null;
}

/** Returns the items of a list in a map. If there is no such list, returns no items. */
export function itemsOf(value: unknown, key: string, path: KeyPath = []): Item[] {
  const list = mapIn(value)[key];
  return Array.isArray(list)
    ? list.map((item: unknown, index) => ({ value: item, path: [...path, key, index] }))
    : [];
}

export function textOf(value: unknown, key: string): string | undefined {
  const text = mapIn(value)[key];
  return typeof text === 'string' ? text : undefined;
}

/** Returns the value if it is a map. For anything else, returns an empty map. */
export function mapIn(value: unknown): Record<string, unknown> {
  return isRecord(value) ? value : {};
}
