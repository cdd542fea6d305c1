import { stat } from 'node:fs/promises';
import type { Config } from '../../../core/config/config.ts';
import { finding, type Finding } from '../../../core/finding.ts';
import { openToOthers } from '../../../core/storage/sftp/key-file.ts';

interface Location {
  backend: string;
  sshKeyFile?: string | null;
}

/**
 * What is missing on this machine, or stands open, of what the configuration names: local sources, and
 * private keys. `file` is the configuration, for messages. They are warnings, since it may run on another
 * machine. Nothing is connected to.
 */
export async function lookAround({ pipelines }: Config, file: string): Promise<Finding[]> {
  const found = await Promise.all(
    pipelines.flatMap(({ source, destinations }, index) => {
      const at = `pipelines[${index}]`;
      return [
        missingSource(source, `${at}.source.path`, file),
        keyFile(source, `${at}.source.ssh_key_file`, file),
        ...destinations.map(({ location }, other) =>
          keyFile(location, `${at}.destinations[${other}].ssh_key_file`, file),
        ),
      ];
    }),
  );
  return found.filter((each) => each !== null);
}

async function missingSource(
  source: Config['pipelines'][number]['source'],
  pointer: string,
  file: string,
): Promise<Finding | null> {
  if (source.backend !== 'local') return null;
  const root = source.path;
  const entry = await stat(root).catch(() => null);
  if (entry?.isDirectory() === true) return null;
  const message =
    entry === null
      ? `${root} is not there; make it (mkdir -p ${root}), or correct the path`
      : `${root} is not a directory; move it away, or correct the path`;
  return finding('warning', 'source_missing', message, { file, pointer });
}

async function keyFile(location: Location, pointer: string, file: string): Promise<Finding | null> {
  const key = location.sshKeyFile;
  if (location.backend !== 'sftp' || key === undefined || key === null) return null;
  try {
    const mode = await openToOthers(key);
    if (mode === null) return null;
    const message = `${key} can be read by others (mode ${mode}), and will be refused: chmod 600 ${key}`;
    return finding('warning', 'key_open_to_others', message, { file, pointer });
  } catch {
    return finding(
      'warning',
      'key_missing',
      `${key} cannot be looked at here; name the file of a private key`,
      {
        file,
        pointer,
      },
    );
  }
}
