import { isDeepStrictEqual } from 'node:util';
import type { Finding } from '../lib/errors.ts';
import type { Config } from './config.ts';

/**
 * The result of reloading the configuration. Settings have the names that they have in the file, such as
 * `pipelines.maps` or `server.http.listen`.
 */
export interface ReloadReport extends ConfigChanges {
  /** Settings that have changed but need a restart. */
  restartNeeded: string[];
  warnings: Finding[];
}

interface ConfigChanges {
  added: string[];
  changed: string[];
  removed: string[];
}

/**
 * Returns the parts of a newer configuration that a running process can adopt, and the settings that have
 * changed but need a restart.
 */
export function applyReloadable(started: Config, newer: Config): { config: Config; restartNeeded: string[] } {
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

/** Returns the names of all settings that are different in the two configurations. */
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
 * The parts of `Config` and its `server` that a reload can replace. Everything else stays the same until the
 * process exits.
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

/**
 * Returns the settings that need a restart, by name. That includes anything that is added to `Config` later,
 * unless it is listed above.
 */
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

/** Returns the settings that a reload can replace, by name. Settings that have no value are left out. */
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

/** Returns the name that a setting has in the file: `uploadTimeoutMs` becomes `upload_timeout`. */
function asInFile(key: string): string {
  return key.replace(/Ms$/, '').replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
