import { existsSync } from 'node:fs';
import { lstat, open, rm } from 'node:fs/promises';
import path from 'node:path';
import { parseConfig } from '../../../core/config/load-config.ts';
import { installQueuePackage } from '../../../core/config/required-packages.ts';
import { unsafePaths } from '../../../core/config/unsafe-paths.ts';
import { errorMessage, type Finding, WaybillError } from '../../../core/lib/errors.ts';
import { shellQuoted } from '../../../core/lib/text.ts';
import { homeDirectory } from '../../process/home-directory.ts';
import type { Io, OptionsFor } from '../../setup/command.ts';
import type { initCommand } from './commands.ts';
import {
  metricsToken,
  relativePlaces,
  servicePlaces,
  sitePlaces,
  type Situation,
  situations,
} from './situations.ts';
import { configOfServices, secretsOfServices, serviceUnit } from './systemd-unit.ts';

type InitOptions = OptionsFor<typeof initCommand>;

/** The commands that generate secrets on this machine. Other secrets come from a service. */
const generators: Readonly<Record<string, string>> = {
  WAYBILL_TOKEN: 'waybill token new producer',
  [metricsToken]: 'head -c 24 /dev/urandom | base64',
};

/** Applied regardless of the umask: the files hold no secrets, and the service may run as another user. */
const readableByAll = 0o644;

interface NewFile {
  path: string;
  is: 'configuration' | 'unit';
  text: string;
}

/**
 * Implements `waybill init`. Writes a configuration and, if requested, a systemd unit. If one of them cannot
 * be written, neither is. Throws a `usage` error if a file already exists or cannot be written.
 */
export async function init(options: InitOptions, { output }: Io): Promise<number> {
  const site = options.situation === undefined ? detectBuiltSite(path.dirname(options.out)) : undefined;
  const name = options.situation ?? (site === undefined ? 'uploads' : 'directory');
  const situation = situations.find((one) => one.name === name);
  if (situation === undefined) throw new WaybillError('usage', `there is no situation "${name}"`);
  const secrets = secretsOf(situation, options);
  const files = filesFor(situation, secrets, options, site);
  await writeAll(files);
  const warnings = unsafeDirectories(files[0]);
  const next = [
    `waybill config check --config ${shellQuoted(options.out)}`,
    ...(options.systemd === undefined
      ? situation.next(options.out, site)
      : installSteps(situation, secrets, options.out, options.systemd)),
  ];
  const written = files.map(({ path: file, is }) => ({ path: path.resolve(file), is }));
  const document = { situation: name, files: written, secrets, warnings, next };
  output.result('init', document, () => {
    for (const { path: file, is } of files)
      output.data(`${output.style.green('wrote')}  ${file}  (${is === 'unit' ? 'systemd unit' : is})`);
    output.data('next');
    for (const command of next) output.data(`  ${command}`);
  });
  return 0;
}

/** The directories that site generators and people put a site into. */
const siteNames = ['dist', 'build', 'out', 'public', '_site', 'site'];

/** Returns the name of a directory next to the configuration that holds a site, if there is one. */
function detectBuiltSite(place: string): string | undefined {
  return siteNames.find((name) => existsSync(path.join(place, name, 'index.html')));
}

/** Returns the names of the secrets that the configuration refers to. */
function secretsOf(situation: Situation, { systemd }: InitOptions): string[] {
  return [...situation.secrets, ...(systemd === undefined ? [] : [metricsToken])];
}

function filesFor(
  situation: Situation,
  secrets: readonly string[],
  { out, systemd }: InitOptions,
  site: string | undefined,
): NewFile[] {
  const isService = systemd !== undefined;
  const beside = site === undefined ? relativePlaces : sitePlaces(site);
  const text = situation.text(isService ? servicePlaces : beside);
  const files: NewFile[] = [{ path: out, is: 'configuration', text }];
  if (!isService) return files;
  if (path.resolve(out) === path.resolve(systemd))
    throw new WaybillError('usage', `"${out}" cannot be the configuration and the unit`, {
      hint: 'name two files with --out and --systemd',
    });
  const unit = serviceUnit({
    program: situation.program,
    credentials: [...secrets, ...situation.credentials],
  });
  return [...files, { path: systemd, is: 'unit', text: unit }];
}

/** Returns a warning for each directory that exists and has unsafe permissions. */
function unsafeDirectories(file: NewFile | undefined): Finding[] {
  if (file === undefined) return [];
  const loaded = parseConfig(Buffer.from(file.text), path.resolve(file.path), { home: homeDirectory() });
  const scope = { isDaemon: true, sudoUser: process.env['SUDO_UID'] };
  return unsafePaths(loaded, scope).map((each) => ({ ...each, severity: 'warning' }));
}

/** Returns the steps from the two files to a running service. */
function installSteps(
  { program, credentials }: Situation,
  secrets: readonly string[],
  out: string,
  unit: string,
): string[] {
  const service = path.basename(unit);
  const secret = (name: string): string => `${secretsOfServices}/${name}`;
  const queuePackage = program === 'serve' ? installQueuePackage() : null;
  return [
    ...(queuePackage === null ? [] : [`sudo ${queuePackage}`]),
    'sudo useradd --system --home-dir /var/lib/waybill --shell /usr/sbin/nologin waybill',
    `sudo install -d -m 700 ${secretsOfServices}`,
    ...secrets.map((name) => {
      const command = generators[name];
      return command === undefined
        ? `sudo install -m 600 /dev/stdin ${secret(name)} # its value, then Ctrl-D`
        : `${command} | sudo install -m 600 /dev/stdin ${secret(name)}`;
    }),
    ...credentials.map((name) => `sudo install -m 600 KEYFILE ${secret(name)}`),
    `sudo install -m 644 ${shellQuoted(out)} ${configOfServices}`,
    `sudo install -m 644 ${shellQuoted(unit)} /etc/systemd/system/${shellQuoted(service)}`,
    'sudo systemctl daemon-reload',
    `sudo systemctl enable --now ${shellQuoted(service)}`,
  ];
}

async function writeAll(files: readonly NewFile[]): Promise<void> {
  for (const file of files) if (await fileExists(file.path)) throw fileExistsError(file.path);
  const written: string[] = [];
  try {
    for (const file of files) {
      const handle = await open(file.path, 'wx', readableByAll).catch((error: unknown) => {
        throw createFailure(file.path, error);
      });
      written.push(file.path);
      try {
        await handle.chmod(readableByAll);
        await handle.writeFile(file.text);
      } catch (error) {
        throw createFailure(file.path, error);
      } finally {
        await handle.close();
      }
    }
  } catch (error) {
    for (const file of written) await rm(file, { force: true });
    throw error;
  }
}

/** Reports whether a file exists. A dangling link counts as one. */
async function fileExists(file: string): Promise<boolean> {
  return lstat(file).then(
    () => true,
    () => false,
  );
}

function fileExistsError(file: string): WaybillError {
  return new WaybillError('usage', `"${file}" already exists; nothing was written`, {
    hint: 'choose another file with --out, or remove this one',
  });
}

function createFailure(file: string, error: unknown): WaybillError {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (code === 'EEXIST') return fileExistsError(file);
  const directory = path.dirname(path.resolve(file));
  const reasons: Readonly<Record<string, [string, string]>> = {
    ENOENT: [`the directory ${directory} does not exist`, `mkdir -p ${shellQuoted(directory)}`],
    ENOTDIR: [`${directory} is not a directory`, 'name another path'],
    EACCES: [`${directory} is not writable`, 'run as a user with write permission, or name another path'],
    EROFS: ['the file system is read-only', 'name another path'],
    ENOSPC: ['no space is left', 'free disk space, or name another path'],
  };
  const [reason, hint] = reasons[code] ?? [errorMessage(error), 'name another path'];
  return new WaybillError('usage', `"${file}" cannot be written: ${reason}`, { hint, cause: error });
}
