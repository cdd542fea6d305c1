import { accessSync, constants, existsSync, statfsSync, statSync } from 'node:fs';
import path from 'node:path';
import { WaybillError, withDetails } from '../../../core/lib/errors.ts';
import { formatSize } from '../../../core/lib/settings/sizes-and-durations.ts';
import { shellQuoted } from '../../../core/lib/text.ts';
import { currentUserName, userName } from '../../../core/lib/unsafe-path.ts';
import { requireCreatableRoot } from '../../../core/storage/local/local-root.ts';
import { weatherFamilies } from '../../../weather/families.ts';
import { missingTemplates } from '../../../weather/render/text-renderer.ts';

/**
 * Checks whether files can be created in a directory, without writing anything. The directory may not exist
 * yet. Returns the result as text. Throws a `storage_*` error with the first directory that is the problem
 * and its owner.
 *
 * @param minRoom The free space that is required, in bytes.
 */
export function tryWritableDirectory(directory: string, { minRoom = 0 } = {}): string {
  const there = nearestExisting(directory);
  try {
    requireCreatableRoot(directory, { makes: true });
    if (there === directory) accessSync(directory, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw withOwner(denied(error, directory), there);
  }
  const { bavail, bsize, type } = statfsSync(there);
  const free = bavail * bsize;
  if (free < minRoom)
    throw new WaybillError(
      'insufficient_storage',
      `${there} has ${formatSize(free)} free, and ${formatSize(minRoom)} are needed`,
      { hint: 'free space on that disk' },
    );
  const room = `${formatSize(free)} free${type === memoryFileSystem ? ', in memory' : ''}`;
  if (there === directory) return `may be written; ${describeOwner(there)}; ${room}`;
  return `does not exist, but can be created: ${there} ${describeOwner(there)}; ${room}`;
}

/** The value of `f_type` for tmpfs, whose files are lost on reboot. */
const memoryFileSystem = 0x01021994;

/** Checks whether a directory exists and can be listed. Otherwise works like `tryWritableDirectory`. */
export function tryReadableDirectory(directory: string): string {
  const there = nearestExisting(directory);
  if (there !== directory)
    throw new WaybillError('storage_not_found', `${directory} does not exist`, {
      hint: `create it (mkdir -p ${shellQuoted(directory)}), or correct the path`,
    });
  if (!statSync(directory).isDirectory())
    throw new WaybillError('storage_permanent', `${directory} is not a directory`, {
      hint: 'correct the path, so that it names a directory',
    });
  try {
    accessSync(directory, constants.R_OK | constants.X_OK);
  } catch (cause) {
    const what = `${directory} may not be read by ${currentUserName()}`;
    throw withOwner(
      new WaybillError('storage_denied', what, {
        hint: `let ${currentUserName()}, or the user of the daemon, read it`,
        cause,
      }),
      there,
    );
  }
  return `may be read; ${describeOwner(directory)}`;
}

/** Returns the path if it exists. If not, returns the closest parent directory that does. */
function nearestExisting(place: string): string {
  for (let each = place; ; each = path.dirname(each)) if (existsSync(each) || each === '/') return each;
}

function denied(error: unknown, place: string): unknown {
  if (error instanceof WaybillError) return error;
  const code = (error as NodeJS.ErrnoException).code;
  const what =
    code === 'EROFS'
      ? `${place} is on a file system that is mounted read-only`
      : `${place} may not be written by ${currentUserName()}`;
  const hint =
    code === 'EROFS'
      ? 'mount it read-write, or name another path; under systemd, add it to ReadWritePaths='
      : `let ${currentUserName()}, or the user of the daemon, write there`;
  return new WaybillError('storage_denied', what, { hint, cause: error });
}

/** Adds the owner of the path to a permission error. */
function withOwner(error: unknown, there: string): unknown {
  if (!(error instanceof WaybillError)) return error;
  const { code, hint = 'correct the path' } = error;
  const isDenied = error.cause !== undefined && ['storage_denied', 'storage_unavailable'].includes(code);
  const owner = isDenied ? `: ${there} ${describeOwner(there)}` : '';
  return withDetails(error, { message: `${error.message}${owner}`, hint });
}

/**
 * Describes who owns a file or directory: `belongs to www-data (mode 0755)`. Throws an error if it does not
 * exist.
 */
function describeOwner(place: string): string {
  const { uid, mode } = statSync(place);
  return `belongs to ${userName(uid) ?? `user ${uid}`} (mode ${(mode & 0o7777).toString(8).padStart(4, '0')})`;
}

/** Checks that all text templates of the weather reader exist and can be compiled. */
export async function tryTemplates(baseDir: string): Promise<string> {
  const directory = path.resolve(baseDir);
  tryReadableDirectory(directory);
  const names = [...new Set(Object.values(weatherFamilies).map(({ template }) => template))];
  const missing = await missingTemplates(directory, names);
  if (missing.length === names.length)
    throw new WaybillError('storage_not_found', `${directory} holds none of the ${names.length} templates`, {
      hint: 'copy templates/weather of the package there, or leave base_dir out to use those',
    });
  const found = `${names.length - missing.length} of ${names.length} templates exist and compile`;
  const [first] = missing;
  if (first === undefined) return found;
  const others = missing.length === 1 ? '' : ` and ${missing.length - 1} more`;
  return `${found}; format=text is answered with 406 without ${first}.txt.tmpl${others}`;
}
