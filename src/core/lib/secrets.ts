import { constants } from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { describeFinding, type Finding, finding, WaybillError } from './errors.ts';

/**
 * The values of secrets, under the names of environment variables. If a variable is set in the environment,
 * its file in `secrets.directory` is ignored.
 */
export interface Secrets {
  /** Returns the secret, or undefined if it is missing or empty. */
  get(name: string): string | undefined;
  /**
   * Returns the secret. If it is missing or empty, throws a `secrets_invalid` error that says which variable
   * is needed, and what for (`neededBy`).
   */
  require(name: string, neededBy: string): string;
  /**
   * A warning for each variable whose file was ignored because the environment has a different value. Values
   * never appear in a warning.
   */
  readonly warnings: readonly Finding[];
}

export type Environment = Readonly<Record<string, string | undefined>>;

export interface SecretsOptions {
  /**
   * An absolute path; null if there is none in the configuration. In that case, the systemd directory in
   * `CREDENTIALS_DIRECTORY` is used if that variable is set.
   */
  directory: string | null;
  /** The environment. It is only read. A variable that is empty counts as not set. */
  env: Environment;
}

export const maxSecretBytes = 64 * 1024;
const fileNameForm = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Reads the directory of secrets. Each file has the name of an environment variable and contains its value; a
 * single newline at the end is removed. Symbolic links are followed, and names that start with `..` are
 * skipped, because that is how Kubernetes mounts secrets. For anything else, throws a `secrets_invalid` error
 * with a finding for each bad entry.
 */
export async function loadSecrets({ directory: configured, env }: SecretsOptions): Promise<Secrets> {
  const serviceDirectory = configured === null ? credentialsDirectory(env) : null;
  const directory = configured ?? serviceDirectory;
  const files =
    serviceDirectory !== null
      ? await readCredentials(serviceDirectory)
      : configured === null
        ? new Map<string, string>()
        : await readSecretFiles(configured);
  // Use a copy, so that values that have been checked stay the same even if the environment changes later.
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
 * Reads the directory of systemd credentials. The files may be meant for another program: a shell that was
 * started by a service has the same variable, but not the same permissions. Files are therefore skipped if
 * they cannot be read, or if their name could not be a variable. If a secret that we need is missing, it is
 * reported later.
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
          reason: `has a name that no environment variable can have; rename it, for example to ${variableFor(name)}`,
        };
    if ('value' in read) files.set(name, read.value);
    else findings.push(finding('error', 'secret_file_invalid', read.reason, { file }));
  }
  const [first] = findings;
  if (first === undefined) return files;
  const message =
    findings.length === 1
      ? `the secret file ${describeFinding(first)}`
      : `the secrets directory ${directory} has ${findings.length} invalid files`;
  throw new WaybillError('secrets_invalid', message, {
    hint: 'the directory may hold only secrets: text files named like environment variables (letters, digits and _); fix the file, or move it away',
    findings,
  });
}

/** Suggests a name for a variable: `API_KEY` for `api-key.txt`. */
function variableFor(fileName: string): string {
  const name = fileName
    .replace(/(?<=.)\.\w+$/, '')
    .toUpperCase()
    .replace(/\W+/g, '_');
  return fileNameForm.test(name) ? name : `_${name}`;
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
    // Without O_NONBLOCK, opening a named pipe would hang forever.
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      if (!(await handle.stat()).isFile()) return { reason: 'is not a file' };
      const buffer = Buffer.alloc(maxSecretBytes + 1);
      let size = 0;
      for (let count = -1; count !== 0 && size < buffer.length; size += count)
        count = (await handle.read(buffer, size, buffer.length - size, null)).bytesRead;
      if (size > maxSecretBytes)
        return { reason: `is larger than ${maxSecretBytes / 1024} KiB; a secret is a short text` };
      return { value: decode(buffer.subarray(0, size)).replace(/\r?\n$/, '') };
    } finally {
      await handle.close();
    }
  } catch (error) {
    return { reason: error instanceof TypeError ? notText : failure(error) };
  }
}

const notText = 'is not UTF-8 text; save the value as text, or move the file away';

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
