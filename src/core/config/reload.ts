import { isDeepStrictEqual } from 'node:util';
import type { Finding } from '../lib/errors.ts';
import type { Config } from './config.ts';

/** The result of a reload. Settings are named as in the file: `pipelines.maps`, `server.http.listen`. */
export interface ReloadReport extends ConfigChanges {
  /** Settings whose new values hold only once the process is started again. */
  restartNeeded: string[];
  warnings: Finding[];
}

export interface ConfigChanges {
  added: string[];
  changed: string[];
  removed: string[];
}

/**
 * What a process that was started with `started` makes of a newer configuration: what it can take over while
 * it runs, and which of the settings that it cannot are different. Pure.
 */
export function adoptable(started: Config, newer: Config): { config: Config; restartNeeded: string[] } {
  const { secrets, trustedDirectories, uploadTokens, log, pipelines, notifiers } = newer;
  const { adminTokenEnv, metrics } = newer.server;
  const server = {
    ...started.server,
    adminTokenEnv,
    metrics: { ...started.server.metrics, tokenEnv: metrics.tokenEnv },
  };
  const config = { ...started, secrets, trustedDirectories, uploadTokens, log, pipelines, notifiers, server };
  const before = fixedSettings(started);
  const after = fixedSettings(newer);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return { config, restartNeeded: names.filter((name) => !isDeepStrictEqual(before[name], after[name])) };
}

/** Names what differs between what is in force and what comes after it. Pure. */
export function changesBetween(before: Config, after: Config): ConfigChanges {
  const changes: ConfigChanges = { added: [], changed: [], removed: [] };
  const olds = reloadedSettings(before);
  const news = reloadedSettings(after);
  for (const [name, value] of news) {
    if (!olds.has(name)) changes.added.push(name);
    else if (!isDeepStrictEqual(olds.get(name), value)) changes.changed.push(name);
  }
  changes.removed.push(...[...olds.keys()].filter((name) => !news.has(name)));
  return changes;
}

/** Of `Config` and its `server`; all else holds from the start of a process to its end. */
const reloaded: readonly string[] = [
  'file',
  'secrets',
  'trustedDirectories',
  'uploadTokens',
  'log',
  'pipelines',
  'notifiers',
  'server',
  'http',
  'metrics',
  'adminTokenEnv',
];

/** By name, and one that is new in the code is one of these. */
function fixedSettings(config: Config): Record<string, unknown> {
  const { host, port, ...http } = config.server.http;
  return {
    'server.http.listen': [host, port],
    ...named('server.http.', http),
    'server.metrics.enabled': config.server.metrics.enabled,
    ...named('server.', config.server),
    ...named('', config),
  };
}

function named(prefix: string, settings: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(settings)
      .filter(([key]) => !reloaded.includes(key))
      .map(([key, value]: [string, unknown]) => [`${prefix}${asInFile(key)}`, value]),
  );
}

/** Settings without a value are omitted. */
function reloadedSettings(config: Config): Map<string, unknown> {
  const { secrets, server, log } = config;
  const single: [string, unknown][] = [
    ['secrets.directory', secrets.directory],
    ['trusted_directories', config.trustedDirectories.length === 0 ? null : config.trustedDirectories],
    ['server.admin_token_env', server.adminTokenEnv],
    ['server.metrics.token_env', server.metrics.tokenEnv],
    ['log', log],
  ];
  const listed = (name: string, items: readonly { id: string }[]): [string, unknown][] =>
    items.map((item) => [`${name}.${item.id}`, item]);
  return new Map([
    ...single.filter(([, value]) => value !== null),
    ...listed('upload_tokens', config.uploadTokens),
    ...listed('pipelines', config.pipelines),
    ...listed('notifiers', config.notifiers),
  ]);
}

/** `uploadTimeoutMs` → `upload_timeout`. */
function asInFile(key: string): string {
  return key.replace(/Ms$/, '').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
