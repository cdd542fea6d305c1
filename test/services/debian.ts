import { accessSync, constants, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { aptInstall, type AptSettings } from './apt.ts';
import { type NeedName, needs } from './needs.ts';

/**
 * Thrown if a test needs a service that is missing and cannot be installed. `npm test` skips such tests by
 * name, except in CI.
 */
export class MissingService extends Error {
  readonly code = 'missing_service';
  /** Why it could not be installed, for example because of missing permissions. */
  readonly reason: string;

  constructor(message: string, { reason = message, cause }: { reason?: string; cause?: unknown } = {}) {
    super(message, { cause });
    this.reason = reason;
  }
}

/** Makes sure that the programs of these needs are on this machine. Installs missing Debian packages. */
export async function ensureInstalled(...names: readonly NeedName[]): Promise<void> {
  await installMissing(names);
}

/**
 * Installs the packages of all unmet needs in one call of apt. Throws a `MissingService` with a message of
 * one line: the packages, the reason, and the fix.
 */
export async function installMissing(names: readonly NeedName[], settings: AptSettings = {}): Promise<void> {
  const packages = missingPackages(names);
  if (packages.length === 0) return;
  // `npm test` has tried before it started this file. Trying again in every file would only take longer.
  const refusal = process.env['WAYBILL_TEST_REFUSAL'] ?? (await aptInstall(packages, settings));
  const still = refusal === undefined ? missingPackages(names) : packages;
  if (still.length === 0) return;
  const command = `apt-get install --no-install-recommends ${packages.join(' ')}`;
  const reason = refusal ?? 'their programs are not on the PATH after the installation';
  throw new MissingService(`missing ${still.join(', ')}: ${reason}; run \`${command}\` as root`, { reason });
}

/** The packages of needs with missing programs. */
export function missingPackages(names: readonly NeedName[]): string[] {
  const missing = names.filter((name) =>
    needs[name].programs.some((program) => pathOf(program) === undefined),
  );
  return [...new Set(missing.flatMap((name) => needs[name].packages))].sort();
}

/**
 * The path of a program, or undefined if it is not installed. Directories of system programs are searched
 * whatever the PATH is, and also those with the programs of a PostgreSQL server in Debian, newest first.
 */
export function pathOf(program: string): string | undefined {
  if (program === 'chromium' && process.env['CHROMIUM_PATH'] !== undefined)
    return process.env['CHROMIUM_PATH'];
  const names = program === 'chromium' ? chromiumNames : [program];
  const directories = [
    // A PATH may have only some of them, but all must have the same version.
    ...(needs.postgres.programs.some((name) => name === program) ? postgresDirectories() : []),
    ...(process.env['PATH'] ?? '').split(path.delimiter).filter((directory) => directory !== ''),
    ...systemDirectories,
  ];
  return names
    .flatMap((name) => directories.map((directory) => path.join(directory, name)))
    .find(isExecutable);
}

const chromiumNames = [
  'chromium-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
];
const systemDirectories = ['/usr/local/sbin', '/usr/sbin', '/sbin'];
const postgresVersions = '/usr/lib/postgresql';

/** Packages with a server. Client-only packages use the same directory. */
function postgresDirectories(): string[] {
  try {
    const versions = readdirSync(postgresVersions).sort((a, b) => Number(b) - Number(a));
    const directories = versions.map((version) => path.join(postgresVersions, version, 'bin'));
    return directories.filter((directory) => isExecutable(path.join(directory, 'initdb')));
  } catch {
    return [];
  }
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
