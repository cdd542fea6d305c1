import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { WaybillError } from '../lib/errors.ts';
import type { Config } from './config.ts';

/**
 * Packages that we do not bundle, because they have native code or large files. Only a few configurations
 * need them, and users have to install them by name. They are peer dependencies in package.json.
 */
type OptionalPackage = '@electric-sql/pglite' | 'lmdb';

interface Requirement {
  name: OptionalPackage;
  /** The setting that makes the package necessary. */
  setting: string;
}

const queue: Requirement = { name: 'lmdb', setting: 'server.queue with driver: embedded' };
const database: Requirement = { name: '@electric-sql/pglite', setting: 'databases[] with driver: pglite' };

/**
 * Throws a `package_missing` error if the configuration needs packages that are not installed. The error has
 * the command to install them.
 */
export function requirePackages({ server, databases }: Config): void {
  mustBeInstalled([
    ...(server.queue.driver === 'embedded' ? [queue] : []),
    ...(databases.some(({ driver }) => driver === 'pglite') ? [database] : []),
  ]);
}

/** Throws a `package_missing` error if LMDB is not installed. The error has the command to install it. */
export const requireQueuePackage = (): void => mustBeInstalled([queue]);

/** Throws a `package_missing` error if PGlite is not installed. The error has the command to install it. */
export const requireDatabasePackage = (): void => mustBeInstalled([database]);

/** Returns the command to install LMDB, or null if it is installed. */
export const installQueuePackage = (): string | null => commandFor([queue]);

function mustBeInstalled(requirements: readonly Requirement[]): void {
  const hint = commandFor(requirements);
  if (hint === null) return;
  const missing = requirements.filter(({ name }) => !isInstalled(name));
  const needs = missing.map(({ setting, name }) => `${setting} needs the package ${name}`).join(', and ');
  const verb = missing.length === 1 ? 'which is' : 'which are';
  throw new WaybillError('package_missing', `${needs}, ${verb} not installed`, { hint });
}

/** Returns the command to install the packages that are missing, or null if none are. */
function commandFor(requirements: readonly Requirement[]): string | null {
  const missing = requirements.filter(({ name }) => !isInstalled(name));
  if (missing.length === 0) return null;
  const { home, versions } = ownPackage();
  const wanted = missing.map(({ name }) => `${name}@${versions[name]}`).join(' ');
  return installCommand(wanted, home, process.cwd());
}

function isInstalled(name: OptionalPackage): boolean {
  try {
    createRequire(import.meta.url).resolve(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the directory that waybill is installed in, and the versions of optional packages that it was
 * tested with.
 */
function ownPackage(): { home: string; versions: Record<OptionalPackage, string> } {
  const file = fileURLToPath(new URL('../../../package.json', import.meta.url));
  const { peerDependencies } = JSON.parse(readFileSync(file, 'utf8')) as {
    peerDependencies: Record<OptionalPackage, string>;
  };
  return { home: path.dirname(file), versions: peerDependencies };
}

// npm warns that the packages have scripts. They only build native code on platforms for which there is no
// prebuilt binary.
const install = 'npm install --ignore-scripts';

/**
 * Returns a command that installs packages in a place where waybill will find them. `home` is the directory
 * that waybill is installed in.
 */
export function installCommand(wanted: string, home: string, cwd: string): string {
  const modules = path.dirname(home);
  if (path.basename(modules) !== 'node_modules') return `${install} --no-save --prefix ${home} ${wanted}`;
  if (modules.includes(`${path.sep}_npx${path.sep}`))
    return `npx --package waybill --package ${wanted} waybill …`;
  const project = path.dirname(modules);
  if (!existsSync(path.join(project, 'package.json'))) return `${install} --global ${wanted}`;
  return `${install} ${project === cwd ? '' : `--prefix ${project} `}${wanted}`;
}
