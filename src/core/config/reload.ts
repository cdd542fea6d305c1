import { isDeepStrictEqual } from 'node:util';
import type { Finding } from '../lib/errors.ts';
import type { Config } from './config.ts';

/**
 * The result of a reload. Settings are named as in the file, for example `pipelines.maps` or
 * `server.http.listen`.
 */
export interface ReloadReport extends ConfigChanges {
  /** Settings that take effect only after a restart. */
  restartNeeded: string[];
  warnings: Finding[];
}

export interface ConfigChanges {
  added: string[];
  changed: string[];
  removed: string[];
}

/**
 * Splits a newer configuration into the part that a running process can adopt and the changed settings that
 * need a restart.
 */
export function adoptable(started: Config, newer: Config): { config: Config; restartNeeded: string[] } {
  const { secrets, trustedDirectories, uploadTokens, trustedPublishers, log, pipelines, notifiers } = newer;
  const { adminTokenEnv, tokenKeysEnv, metrics, console } = newer.server;
  const server = {
    ...started.server,
    adminTokenEnv,
    tokenKeysEnv,
    metrics: { ...started.server.metrics, tokenEnv: metrics.tokenEnv },
    console: { ...started.server.console, login: console.login },
  };
  const tokens = { uploadTokens, trustedPublishers };
  const config = { ...started, secrets, trustedDirectories, ...tokens, log, pipelines, notifiers, server };
  const before = fixedSettings(started);
  const after = fixedSettings(newer);
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return { config, restartNeeded: names.filter((name) => !isDeepStrictEqual(before[name], after[name])) };
}

/** Returns the names of the settings that differ between the two configurations. */
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

/**
 * The members of `Config` and its `server` that a reload replaces. All others are fixed until the process
 * exits.
 */
const reloaded: readonly string[] = [
  'file',
  'secrets',
  'trustedDirectories',
  'uploadTokens',
  'trustedPublishers',
  'log',
  'pipelines',
  'notifiers',
  'server',
  'http',
  'metrics',
  'console',
  'login',
  'adminTokenEnv',
  'tokenKeysEnv',
];

/** Returns all settings that need a restart, by name. New members of `Config` are included by default. */
function fixedSettings(config: Config): Record<string, unknown> {
  const { host, port, ...http } = config.server.http;
  return {
    'server.http.listen': [host, port],
    ...named('server.http.', http),
    'server.metrics.enabled': config.server.metrics.enabled,
    ...named('server.console.', config.server.console),
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

/** Returns the settings that a reload replaces, by name. Omits settings without a value. */
function reloadedSettings(config: Config): Map<string, unknown> {
  const { secrets, server, log } = config;
  const single: [string, unknown][] = [
    ['secrets.directory', secrets.directory],
    ['trusted_directories', config.trustedDirectories.length === 0 ? null : config.trustedDirectories],
    ['server.admin_token_env', server.adminTokenEnv],
    ['server.token_keys_env', server.tokenKeysEnv],
    ['server.metrics.token_env', server.metrics.tokenEnv],
    ['server.console.login', server.console.login],
    ['log', log],
  ];
  const listed = (name: string, items: readonly { id: string }[]): [string, unknown][] =>
    items.map((item) => [`${name}.${item.id}`, item]);
  return new Map([
    ...single.filter(([, value]) => value !== null),
    ...listed('upload_tokens', config.uploadTokens),
    ...listed('trusted_publishers', config.trustedPublishers),
    ...listed('pipelines', config.pipelines),
    ...listed('notifiers', config.notifiers),
  ]);
}

/** Converts a name to the form used in the file: `uploadTimeoutMs` → `upload_timeout`. */
function asInFile(key: string): string {
  return key.replace(/Ms$/, '').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
