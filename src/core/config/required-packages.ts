import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { WaybillError } from '../lib/errors.ts';
import type { Config } from './config.ts';

/**
 * Packages that are not bundled, because they contain native code or large files. Few configurations need
 * them, and users install them by name. They are listed as peer dependencies in package.json.
 */
type OptionalPackage = '@electric-sql/pglite' | 'lmdb';

interface Requirement {
  name: OptionalPackage;
  /** The setting that needs the package. */
  setting: string;
}

const queue: Requirement = { name: 'lmdb', setting: 'server.queue with driver: embedded' };
const database: Requirement = { name: '@electric-sql/pglite', setting: 'databases[] with driver: pglite' };

/** Throws `package_missing`, with a command that installs all missing packages. */
export function requirePackages({ server, databases }: Config): void {
  mustBeInstalled([
    ...(server.queue.driver === 'embedded' ? [queue] : []),
    ...(databases.some(({ driver }) => driver === 'pglite') ? [database] : []),
  ]);
}

/** Throws `package_missing`, with a command that installs LMDB. */
export const requireQueuePackage = (): void => mustBeInstalled([queue]);

/** Throws `package_missing`, with a command that installs PGlite. */
export const requireDatabasePackage = (): void => mustBeInstalled([database]);

/** Returns the command that installs LMDB, or null if it is already installed. */
export const installQueuePackage = (): string | null => commandFor([queue]);

function mustBeInstalled(requirements: readonly Requirement[]): void {
  const hint = commandFor(requirements);
  if (hint === null) return;
  const missing = requirements.filter(({ name }) => !isInstalled(name));
  const needs = missing.map(({ setting, name }) => `${setting} needs the package ${name}`).join(', and ');
  const verb = missing.length === 1 ? 'which is' : 'which are';
  throw new WaybillError('package_missing', `${needs}, ${verb} not installed`, { hint });
}

/** Returns the command that installs the missing packages, or null if all are installed. */
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

/** Returns waybill's directory, and the versions of the optional packages that it was tested with. */
function ownPackage(): { home: string; versions: Record<OptionalPackage, string> } {
  const file = fileURLToPath(new URL('../../../package.json', import.meta.url));
  const { peerDependencies } = JSON.parse(readFileSync(file, 'utf8')) as {
    peerDependencies: Record<OptionalPackage, string>;
  };
  return { home: path.dirname(file), versions: peerDependencies };
}

// npm warns about the packages' scripts, which only build native code if there is no prebuilt binary for the
// platform.
const install = 'npm install --ignore-scripts';

/** Returns a command that installs packages where waybill, which is in `home`, can find them. */
export function installCommand(wanted: string, home: string, cwd: string): string {
  const modules = path.dirname(home);
  if (path.basename(modules) !== 'node_modules') return `${install} --no-save --prefix ${home} ${wanted}`;
  if (modules.includes(`${path.sep}_npx${path.sep}`))
    return `npx --package waybill --package ${wanted} waybill …`;
  const project = path.dirname(modules);
  if (!existsSync(path.join(project, 'package.json'))) return `${install} --global ${wanted}`;
  return `${install} ${project === cwd ? '' : `--prefix ${project} `}${wanted}`;
}
