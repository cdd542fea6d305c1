import { stat } from 'node:fs/promises';
import type { Config } from '../../../core/config/config.ts';
import type { Loaded } from '../../../core/config/accepted-config.ts';
import type { KeyPath } from '../../../core/config/yaml-text.ts';
import { finding, type Finding } from '../../../core/lib/errors.ts';
import { openToOthers } from '../../../core/storage/sftp/location.ts';

type Place = Pick<Finding, 'file' | 'pointer' | 'line' | 'column'>;

interface Location {
  backend: string;
  sshKeyFile?: string | null;
}

/**
 * What is missing on this machine, or stands open, of what the configuration names: local sources, and
 * private keys. `file` is the configuration, for messages. They are warnings, since it may run on another
 * machine. Nothing is connected to.
 */
export async function lookAround({ config, locate }: Loaded, file: string): Promise<Finding[]> {
  const at = (...setting: KeyPath): Place => ({ file, ...locate(setting) });
  const found = await Promise.all(
    config.pipelines.flatMap(({ source, destinations }, index) => [
      missingSource(source, at('pipelines', index, 'source', 'path')),
      keyFile(source, at('pipelines', index, 'source', 'ssh_key_file')),
      ...destinations.map(({ location }, other) =>
        keyFile(location, at('pipelines', index, 'destinations', other, 'ssh_key_file')),
      ),
    ]),
  );
  return found.filter((each) => each !== null);
}

async function missingSource(
  source: Config['pipelines'][number]['source'],
  place: Place,
): Promise<Finding | null> {
  if (source.backend !== 'local') return null;
  const root = source.path;
  const entry = await stat(root).catch(() => null);
  if (entry?.isDirectory() === true) return null;
  const message =
    entry === null
      ? `${root} is not there; make it (mkdir -p ${root}), or correct the path`
      : `${root} is not a directory; move it away, or correct the path`;
  return finding('warning', 'source_missing', message, place);
}

async function keyFile(location: Location, place: Place): Promise<Finding | null> {
  const key = location.sshKeyFile;
  if (location.backend !== 'sftp' || key === undefined || key === null) return null;
  try {
    const mode = await openToOthers(key);
    if (mode === null) return null;
    const message = `${key} can be read by others (mode ${mode}), and will be refused: chmod 600 ${key}`;
    return finding('warning', 'key_open_to_others', message, place);
  } catch {
    return finding(
      'warning',
      'key_missing',
      `${key} cannot be looked at here; name the file of a private key`,
      place,
    );
  }
}
