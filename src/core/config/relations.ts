import type { Place } from '../storage/backend.ts';
import { backendOf } from '../storage/backends.ts';
import type { SourceConfig } from './config.ts';
import { resolveSource } from './resolve.ts';
import { layoutFaults } from './layout-relations.ts';
import { scheduleFaults } from './schedule-relations.ts';
import { destinationSchema, sourceSchema } from './schema/locations.ts';
import { accept } from '../lib/settings/accept.ts';
import { isRemoteStaging, thisMachine } from './schema/staging.ts';
import { didYouMean, type Fault } from './schema/findings.ts';
import { pathFaults } from './path-relations.ts';
import { resolvePath, type PathBase } from '../lib/settings/values.ts';
import type { KeyPath } from './yaml-text.ts';

/**
 * What concerns several settings at once. Works on the raw document and skips whatever part the schema
 * refused, so that these findings come together with the schema's own. Paths are compared as text: symbolic
 * links are not followed. Pure.
 */
export function relationFaults(document: unknown, base: PathBase): Fault[] {
  const pipelines = itemsOf(document, ['pipelines']);
  const tokens = itemsOf(document, ['upload_tokens']);
  const notifiers = itemsOf(document, ['notifiers']);
  const databases = itemsOf(document, ['databases']);
  return [
    ...duplicateIds(pipelines, 'pipeline'),
    ...duplicateIds(tokens, 'upload token'),
    ...duplicateIds(databases, 'database', 'name'),
    ...pipelines.flatMap(({ value, path }) =>
      duplicateIds(itemsOf(value, ['destinations'], path), 'destination'),
    ),
    ...tokenFaults(tokens, pipelines),
    ...duplicateIds(notifiers, 'notifier'),
    ...notifierFaults(notifiers, pipelines),
    ...pipelines.flatMap((pipeline) => locationFaults(pipeline, base)),
    ...pipelines.flatMap(orphanFaults),
    ...pipelines.flatMap(rootIndexFaults),
    ...pipelines.flatMap(({ value, path }) =>
      itemsOf(value, ['destinations'], path).flatMap((item) => layoutFaults(item.value, item.path)),
    ),
    ...pipelines.flatMap(({ value, path }) => scheduleFaults(value, path)),
    ...uploadsWithoutToken(pipelines, tokens),
    ...stagingFaults(document, base),
    ...pathFaults(document),
    ...(isMap(document) && isEmptyList(document['pipelines'] ?? []) && databases.length === 0
      ? [noPipelines]
      : []),
  ];
}

const noPipelines: Fault = {
  severity: 'warning',
  code: 'no_pipelines',
  path: ['pipelines'],
  part: 'key',
  message: 'there are no pipelines, so there is nothing to publish; waybill init writes one to begin with',
};

interface Item {
  value: unknown;
  path: KeyPath;
}

function duplicateIds(items: Item[], what: string, key = 'id'): Fault[] {
  const seen = new Set<string>();
  return items.flatMap(({ value, path }): Fault[] => {
    const id = textOf(value, key);
    if (id === undefined) return [];
    if (!seen.has(id)) {
      seen.add(id);
      return [];
    }
    return [
      fault(
        'duplicate_id',
        [...path, key],
        `another ${what} before this one has the same ${key}; ${key}s are unique`,
      ),
    ];
  });
}

function tokenFaults(tokens: Item[], pipelines: Item[]): Fault[] {
  const ids = pipelines.flatMap(({ value }) => textOf(value, 'id') ?? []);
  return tokens.flatMap((token) =>
    itemsOf(token.value, ['pipelines'], token.path).flatMap(({ value, path }): Fault[] => {
      if (typeof value !== 'string' || !/^[a-z0-9][a-z0-9_-]{0,63}$/.test(value) || ids.includes(value))
        return [];
      const choices = ids.length > 0 ? `; expected one of ${ids.join(', ')}` : '; there are no pipelines';
      return [
        fault(
          'unknown_pipeline',
          path,
          `there is no pipeline "${value}"${didYouMean(value, ids) || choices}`,
        ),
      ];
    }),
  );
}

function notifierFaults(notifiers: Item[], pipelines: Item[]): Fault[] {
  const ids = pipelines.flatMap(({ value }) => textOf(value, 'id') ?? []);
  return notifiers.flatMap((notifier) =>
    itemsOf(notifier.value, ['pipelines'], notifier.path).flatMap(({ value, path }): Fault[] =>
      typeof value !== 'string' || ids.includes(value)
        ? []
        : [fault('unknown_pipeline', path, `there is no pipeline "${value}"${didYouMean(value, ids)}`)],
    ),
  );
}

function uploadsWithoutToken(pipelines: Item[], tokens: Item[]): Fault[] {
  const named = new Set(
    tokens.flatMap(({ value }) => itemsOf(value, ['pipelines'])).map(({ value }) => value),
  );
  return pipelines.flatMap(({ value, path }): Fault[] => {
    const id = textOf(value, 'id');
    if (
      id === undefined ||
      named.has(id) ||
      textOf(isMap(value) ? value['source'] : undefined, 'backend') !== 'http_upload'
    )
      return [];
    const message = 'no entry of upload_tokens names this pipeline, so nobody can upload to it';
    return [{ ...fault('upload_token_missing', [...path, 'id'], message), severity: 'warning' }];
  });
}

function locationFaults(pipeline: Item, base: PathBase): Fault[] {
  const source = isMap(pipeline.value) ? accept(sourceSchema, pipeline.value['source'])?.value : undefined;
  const sourcePlace = source === undefined ? undefined : placeOf(resolveSource(source, base));
  const earlier = new Map<string, number>();
  return itemsOf(pipeline.value, ['destinations'], pipeline.path).flatMap(
    ({ value, path }, index): Fault[] => {
      const destination = accept(destinationSchema, value)?.value;
      if (destination === undefined) return [];
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
            `this is the very location of destinations[${same}]; two destinations of a pipeline cannot share one`,
          ),
        );

      if (sourcePlace !== undefined && overlap(sourcePlace, place))
        faults.push(
          fault(
            'overlapping_locations',
            at,
            'this location and that of the source of the pipeline are the same, or one lies inside the other; expected them apart, or outputs and bundles would mix',
          ),
        );
      return faults;
    },
  );
}

/** Uploads are no listing of what there is, and `fixed` means that older bundles give way. */
function orphanFaults({ value: pipeline, path }: Item): Fault[] {
  const isUpload = textOf(isMap(pipeline) ? pipeline['source'] : undefined, 'backend') === 'http_upload';
  return itemsOf(pipeline, ['destinations'], path).flatMap(({ value, path: at }): Fault[] => {
    const orphans = textOf(value, 'orphans');
    if (orphans !== 'report' && orphans !== 'remove') return [];
    if (!isUpload && textOf(value, 'mapping') !== 'fixed') return [];
    const why = isUpload
      ? 'an http_upload source cannot be listed'
      : 'mapping fixed publishes one bundle only';
    return [fault('invalid_value', [...at, 'orphans'], `${why}, so there are no orphans; expected keep`)];
  });
}

/** With `fixed` the root is a bundle path. */
function rootIndexFaults({ value: pipeline, path }: Item): Fault[] {
  return itemsOf(pipeline, ['destinations'], path).flatMap(({ value, path: at }): Fault[] => {
    const outputs = isMap(value) ? value['outputs'] : undefined;
    if (!isMap(outputs) || outputs['root_index'] !== true || textOf(value, 'mapping') !== 'fixed') return [];
    const message =
      'mapping fixed publishes one bundle, at the root itself; expected false, or mapping: preserve_relative';
    return [fault('invalid_value', [...at, 'outputs', 'root_index'], message)];
  });
}

/**
 * A queue of one process has no other hosts that staging could be shared with; a queue in Redis has. What the
 * queue has of its own on this machine is apart from what is staged.
 */
function queueOf(document: unknown): Readonly<Record<string, unknown>> {
  const server = isMap(document) ? document['server'] : undefined;
  return isMap(server) && isMap(server['queue']) ? server['queue'] : {};
}

function stagingFaults(document: unknown, base: PathBase): Fault[] {
  const server = isMap(document) ? document['server'] : undefined;
  const staging = isMap(server) && isMap(server['staging']) ? server['staging'] : {};
  const queue = queueOf(document);
  const backend = textOf(staging, 'backend') ?? thisMachine;
  const driver = textOf(queue, 'driver') ?? 'memory';
  if (driver !== 'bullmq' && isRemoteStaging(backend))
    return [
      fault(
        'invalid_value',
        ['server', 'staging', 'backend'],
        'staging elsewhere needs a queue that several hosts share; expected a directory, or queue: {driver: bullmq}',
      ),
    ];
  const own = ownDirectories[driver];
  if (own === undefined || backend !== thisMachine) return [];
  const at = (path: string): Place => ({ container: '', root: resolvePath(path, base) });
  const staged = at(textOf(staging, 'directory') ?? './staging');
  if (!overlap(at(textOf(queue, own.key) ?? own.initial), staged)) return [];
  return [
    fault(
      'overlapping_locations',
      ['server', 'queue'],
      `${own.what} are the same, or one lies inside the other; expected them apart`,
    ),
  ];
}

/** The directory that a queue has of its own, where `server.staging` must not be. */
const ownDirectories: Partial<Record<string, { key: string; initial: string; what: string }>> = {
  embedded: {
    key: 'directory',
    initial: './queue',
    what: 'the directory of the queue and the staging directory',
  },
  bullmq: {
    key: 'scratch_directory',
    initial: './scratch',
    what: 'the scratch directory of this machine and the staging directory that all hosts share',
  },
};

function placeOf(source: SourceConfig): Place | undefined {
  return source.backend === 'http_upload' ? undefined : backendOf(source).place(source);
}

function overlap(a: Place, b: Place): boolean {
  const inside = (inner: string, outer: string): boolean =>
    inner === outer || inner.startsWith(outer.endsWith('/') ? outer : `${outer}/`);
  return a.container === b.container && (inside(a.root, b.root) || inside(b.root, a.root));
}

function itemsOf(value: unknown, [key]: [string], path: KeyPath = []): Item[] {
  const list = isMap(value) ? value[key] : undefined;
  return Array.isArray(list)
    ? list.map((item: unknown, index) => ({ value: item, path: [...path, key, index] }))
    : [];
}

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

function textOf(value: unknown, key: string): string | undefined {
  const text = isMap(value) ? value[key] : undefined;
  return typeof text === 'string' ? text : undefined;
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function fault(code: Fault['code'], path: KeyPath, message: string): Fault {
  return { severity: 'error', code, path, part: 'value', message };
}
