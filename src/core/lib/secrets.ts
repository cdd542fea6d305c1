import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { type Finding, finding, WaybillError } from './errors.ts';

/**
 * Secret values by environment variable name. The real environment takes precedence over the files in
 * `secrets.directory`.
 */
export interface Secrets {
  /** Returns the value, or undefined if it is absent or empty. */
  get(name: string): string | undefined;
  /**
   * Returns the value. If it is absent or empty, throws `secrets_invalid` naming the variable and `neededBy`.
   */
  require(name: string, neededBy: string): string;
  /**
   * One warning for each variable whose file was ignored because the environment has another value. Warnings
   * never contain values.
   */
  readonly warnings: readonly Finding[];
}

export interface SecretsOptions {
  /**
   * An absolute path, or null if none is configured. If null, the systemd directory in
   * `CREDENTIALS_DIRECTORY` is read if that variable is set.
   */
  directory: string | null;
  /** The real environment, which is never modified. An empty value counts as unset. */
  env: Readonly<Record<string, string | undefined>>;
}

export const maxSecretBytes = 64 * 1024;
const fileNameForm = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Reads the secrets directory. Each file is named after an environment variable, and its content, without one
 * trailing newline, is the value. To support the layout of mounted Kubernetes secrets, symbolic links are
 * followed and entries that begin with `..` are skipped. Anything else throws `secrets_invalid`, with a
 * finding for each invalid entry.
 */
export async function loadSecrets({ directory: configured, env }: SecretsOptions): Promise<Secrets> {
  const given = configured === null ? credentialsDirectory(env) : null;
  const directory = configured ?? given;
  const files =
    given !== null
      ? await readCredentials(given)
      : configured === null
        ? new Map<string, string>()
        : await readSecretFiles(configured);
  // Copied once, so that later changes to the environment do not affect values that have already been
  // checked.
  const environment = new Map(
    Object.entries(env).filter(
      (entry): entry is [string, string] => entry[1] !== undefined && entry[1] !== '',
    ),
  );
  const warnings = [...files]
    .filter(([name, value]) => environment.has(name) && environment.get(name) !== value)
    .map(([name]) =>
      finding(
        'warning',
        'secret_file_ignored',
        `the file of the secret ${name} is ignored: the environment variable of that name has another value and comes first`,
        {
          file: directory === null ? null : join(directory, name),
        },
      ),
    );
  const get = (name: string): string | undefined => {
    const value = environment.get(name) ?? files.get(name);
    return value === '' ? undefined : value;
  };
  return {
    get,
    require: (name, neededBy) => {
      const value = get(name);
      if (value !== undefined) return value;
      throw new WaybillError(
        'secrets_invalid',
        `the secret ${name}, needed by ${neededBy}, is missing or empty`,
        {
          hint: `set the environment variable ${name}, or put its value in ${directory === null ? 'a file of that name in secrets.directory' : join(directory, name)}`,
        },
      );
    },
    warnings,
  };
}

function credentialsDirectory({
  CREDENTIALS_DIRECTORY: directory = '',
}: SecretsOptions['env']): string | null {
  return isAbsolute(directory) ? directory : null;
}

/**
 * Reads the directory of systemd credentials. Its files may belong to another program, because a shell
 * started by a service inherits the variable but not the permissions. Files that cannot be read or are not
 * named like a variable are therefore skipped. A missing secret is reported later by name.
 */
async function readCredentials(directory: string): Promise<Map<string, string>> {
  const names = await readdir(directory).catch((): string[] => []);
  const files = new Map<string, string>();
  for (const name of names.filter((one) => fileNameForm.test(one)).sort()) {
    const read = await readSecretFile(join(directory, name));
    if ('value' in read) files.set(name, read.value);
  }
  return files;
}

async function readSecretFiles(directory: string): Promise<Map<string, string>> {
  const files = new Map<string, string>();
  const findings: Finding[] = [];
  for (const name of await listNames(directory)) {
    if (name.startsWith('..')) continue;
    const file = join(directory, name);
    const read = fileNameForm.test(name)
      ? await readSecretFile(file)
      : {
          reason:
            'a secret file must be named like an environment variable: letters, digits and _, not beginning with a digit',
        };
    if ('value' in read) files.set(name, read.value);
    else findings.push(finding('error', 'secret_file_invalid', read.reason, { file }));
  }
  const [first] = findings;
  if (first === undefined) return files;
  const more = findings.length === 1 ? '' : ` (and ${findings.length - 1} more)`;
  throw new WaybillError(
    'secrets_invalid',
    `the secrets directory ${directory} has an invalid file: ${JSON.stringify(first.file)}: ${first.message}${more}`,
    {
      hint: 'fix, rename or remove each file above: a secret is a UTF-8 file, named like an environment variable',
      findings,
    },
  );
}

async function listNames(directory: string): Promise<string[]> {
  try {
    return (await readdir(directory)).sort();
  } catch (cause) {
    throw new WaybillError('secrets_invalid', `the secrets directory ${directory} ${failure(cause)}`, {
      hint: 'create it and give the user that runs waybill read access, or remove secrets.directory from the configuration',
      cause,
    });
  }
}

async function readSecretFile(file: string): Promise<{ value: string } | { reason: string }> {
  try {
    // Without O_NONBLOCK, opening a named pipe would block forever.
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!(await handle.stat()).isFile()) return { reason: 'is not a file' };
      const buffer = Buffer.alloc(maxSecretBytes + 1);
      let size = 0;
      for (let count = -1; count !== 0 && size < buffer.length; size += count)
        count = (await handle.read(buffer, size, buffer.length - size, null)).bytesRead;
      if (size > maxSecretBytes) return { reason: `is larger than ${maxSecretBytes / 1024} KiB` };
      return { value: decode(buffer.subarray(0, size)).replace(/\r?\n$/, '') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return { reason: error instanceof TypeError ? 'is not UTF-8 text' : failure(error) };
  }
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
}

function failure(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error';
  const reasons: Readonly<Record<string, string>> = {
    ENOENT: 'does not exist',
    ENOTDIR: 'is not a directory',
    EACCES: 'may not be read (permission denied)',
    EPERM: 'may not be read (permission denied)',
    ELOOP: 'is a link that leads to itself',
    ENXIO: 'is not a file',
  };
  return reasons[code] ?? `cannot be read (${code})`;
}
