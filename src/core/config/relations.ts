import { isRecord } from '../lib/json-document.ts';
import { realPath } from '../lib/real-path.ts';
import type { KeyPath } from '../lib/settings/check.ts';
import { type PathBase, resolvePath } from '../lib/settings/parse-values.ts';
import type { StorageRoot } from '../storage/backend.ts';
import { didYouMean, type Fault, fault } from './faults.ts';
import { type Item, itemsOf, mapIn, overlapOf, pipelineFaults, textOf } from './pipeline-relations.ts';
import { isRemoteStaging, thisMachine } from './schema/staging.ts';

/**
 * Checks settings against each other, which a schema cannot do. This uses the raw document and skips the
 * parts that the schema found invalid, so that both kinds of findings can be reported together.
 */
export function relationFaults(document: unknown, base: PathBase): Fault[] {
  const pipelines = itemsOf(document, 'pipelines');
  const tokens = itemsOf(document, 'upload_tokens');
  const publishers = itemsOf(document, 'trusted_publishers');
  const notifiers = itemsOf(document, 'notifiers');
  const databases = itemsOf(document, 'databases');
  return [
    ...duplicateIds(pipelines, 'pipeline'),
    ...duplicateIds([...tokens, ...publishers], 'upload token or trusted publisher'),
    ...duplicateIds(databases, 'database', 'name'),
    ...pipelines.flatMap(({ value, path }) =>
      duplicateIds(itemsOf(value, 'destinations', path), 'destination'),
    ),
    ...tokenFaults([...tokens, ...publishers, ...loginRoles(document)], pipelines),
    ...tokenKeyFaults(document, publishers),
    ...issuerKeyFaults(publishers),
    ...duplicateIds(notifiers, 'notifier'),
    ...notifierFaults(notifiers, pipelines),
    ...auditNotifierFaults(document, notifiers),
    ...pipelines.flatMap((pipeline) => pipelineFaults(pipeline, base)),
    ...uploadsWithoutToken(pipelines, [...tokens, ...publishers]),
    ...stagingFaults(document, base),
    ...pathFaults(document),
    ...(isRecord(document) && isEmptyList(document['pipelines'] ?? []) && databases.length === 0
      ? [noPipelines]
      : []),
  ];
}

const noPipelines: Fault = {
  severity: 'warning',
  code: 'no_pipelines',
  path: ['pipelines'],
  part: 'key',
  message:
    'there are no pipelines, so there is nothing to publish; waybill init --out FILE writes an example',
};

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
        `another ${what} has the ${key} "${id}" already; choose a different ${key}`,
      ),
    ];
  });
}

function loginRoles(document: unknown): Item[] {
  const { login } = mapIn(mapIn(mapIn(document)['server'])['console']);
  return itemsOf(login, 'roles', ['server', 'console', 'login']);
}

/** Checks that the pipelines in tokens, publishers and roles exist. */
function tokenFaults(tokens: Item[], pipelines: Item[]): Fault[] {
  const ids = pipelines.flatMap(({ value }) => textOf(value, 'id') ?? []);
  return tokens.flatMap((token) =>
    itemsOf(token.value, 'pipelines', token.path).flatMap(({ value, path }): Fault[] => {
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

/** Makes sure that all publishers with the same issuer have the same keys. */
function issuerKeyFaults(publishers: Item[]): Fault[] {
  const files = new Map<string, string | undefined>();
  return publishers.flatMap(({ value, path }): Fault[] => {
    const issuer = textOf(value, 'issuer');
    const file = textOf(value, 'jwks_file');
    if (issuer === undefined) return [];
    if (!files.has(issuer)) files.set(issuer, file);
    if (files.get(issuer) === file) return [];
    const message =
      'an entry before this one has the same issuer; expected the same jwks_file in both, or in neither';
    return [fault('invalid_value', [...path, 'issuer'], message)];
  });
}

/**
 * Requires a shared token key if several hosts use the queue. Otherwise, each host would refuse the tokens of
 * the others.
 */
function tokenKeyFaults(document: unknown, publishers: Item[]): Fault[] {
  const { queue, token_keys_env: keys } = mapIn(mapIn(document)['server']);
  if (publishers.length === 0 || keys !== undefined || textOf(queue, 'driver') !== 'bullmq') return [];
  const message =
    'token_keys_env is missing: with queue: {driver: bullmq}, all API hosts need the same key for the tokens of trusted_publishers';
  return [
    {
      severity: 'error',
      code: 'missing_key',
      path: ['server', 'token_keys_env'],
      at: ['server'],
      part: 'key',
      message,
    },
  ];
}

function notifierFaults(notifiers: Item[], pipelines: Item[]): Fault[] {
  const ids = pipelines.flatMap(({ value }) => textOf(value, 'id') ?? []);
  return notifiers.flatMap((notifier) =>
    itemsOf(notifier.value, 'pipelines', notifier.path).flatMap(({ value, path }): Fault[] =>
      typeof value !== 'string' || ids.includes(value)
        ? []
        : [fault('unknown_pipeline', path, `there is no pipeline "${value}"${didYouMean(value, ids)}`)],
    ),
  );
}

/** Checks that notifiers of audit records have a trail to follow, and that `acts` has an effect. */
function auditNotifierFaults(document: unknown, notifiers: Item[]): Fault[] {
  const hasTrail = mapIn(document)['audit'] !== undefined;
  return notifiers.flatMap(({ value, path }): Fault[] => {
    const events = itemsOf(value, 'events', path);
    const chosen = events.find((event) => event.value === 'audit.recorded');
    if (chosen === undefined && itemsOf(value, 'acts').length > 0)
      return [
        fault('invalid_value', [...path, 'acts'], 'acts has no effect without audit.recorded in events'),
      ];
    return chosen === undefined || hasTrail
      ? []
      : [
          fault(
            'invalid_value',
            chosen.path,
            'there is no audit trail: add `audit: {}` to the configuration',
          ),
        ];
  });
}

function uploadsWithoutToken(pipelines: Item[], tokens: Item[]): Fault[] {
  const named = new Set(tokens.flatMap(({ value }) => itemsOf(value, 'pipelines')).map(({ value }) => value));
  return pipelines.flatMap(({ value, path }): Fault[] => {
    const id = textOf(value, 'id');
    if (id === undefined || named.has(id) || textOf(mapIn(value)['source'], 'backend') !== 'http_upload')
      return [];
    const remedy =
      tokens.length === 0
        ? `add a token at the top level: upload_tokens: [{id: ci, value_env: TOKEN, pipelines: [${id}]}]`
        : `add "${id}" to the pipelines of an entry in upload_tokens or trusted_publishers`;
    const message = `no client may upload to this pipeline; ${remedy}`;
    return [{ ...fault('upload_token_missing', [...path, 'id'], message), severity: 'warning' }];
  });
}

/**
 * Makes sure that remote staging is used only if several hosts share the queue, and that the directory of the
 * queue itself is not in staging, or the other way around.
 */
function stagingFaults(document: unknown, base: PathBase): Fault[] {
  const { staging, queue } = mapIn(mapIn(document)['server']);
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
  const at = (path: string): StorageRoot => ({ container: '', root: realPath(resolvePath(path, base)) });
  const staged = at(textOf(staging, 'directory') ?? './staging');
  const queued = at(textOf(queue, own.key) ?? own.initial);
  const how = overlapOf(queued, staged);
  if (how === null) return [];
  const message = `${own.key} ${queued.root} ${how} server.staging.directory ${staged.root}; choose separate directories`;
  return [fault('overlapping_locations', ['server', 'queue'], message)];
}

/** The directory that each queue uses for itself. It must not overlap with `server.staging`. */
const ownDirectories: Partial<Record<string, { key: string; initial: string }>> = {
  embedded: { key: 'directory', initial: './queue' },
  bullmq: { key: 'scratch_directory', initial: './scratch' },
};

function isEmptyList(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0;
}

/** The keys of all settings that are paths, wherever they are in the document. */
const pathSettings = new Set([
  ...['path', 'directory', 'scratch_directory', 'base_dir'],
  ...['ssh_key_file', 'ssh_agent_socket', 'known_hosts_file', 'jwks_file'],
]);
/** Matches a shell variable. */
const variable = /\$(?:\{\w+\}|[A-Za-z_]\w*)|^%\w+%/;

/**
 * Warns about paths that seem to contain a variable, because variables are not expanded. It is only a
 * warning, since a directory could really have that name.
 */
function pathFaults(document: unknown): Fault[] {
  const faults: Fault[] = [];
  const look = (value: unknown, path: KeyPath): void => {
    if (Array.isArray(value)) value.forEach((item, index) => look(item, [...path, index]));
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) look(inner, [...path, key]);
    else if (typeof value === 'string' && pathSettings.has(String(path.at(-1)))) {
      const [found] = variable.exec(value) ?? [];
      if (found !== undefined) faults.push(literal(found, path));
    }
  };
  look(document, []);
  return faults;
}

function literal(found: string, path: KeyPath): Fault {
  return {
    severity: 'warning',
    code: 'variable_in_path',
    path,
    part: 'value',
    message: `${found} is not expanded: it is taken as part of the name; write the full path ("~/" is your home directory)`,
  };
}
