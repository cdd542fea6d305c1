import type { Kinds, Settings } from '../lib/settings/declare.ts';

/** The modes of new files and directories, as numbers such as `0o644`. */
export interface FileModes {
  file: number;
  directory: number;
}

/** The modes of published files. Other users have to be able to read them. */
export const publishedModes: FileModes = { file: 0o644, directory: 0o755 };

/**
 * The modes of files in shared staging, which other users do not need to access. Sources are never written
 * to.
 */
export const privateModes: FileModes = { file: 0o600, directory: 0o700 };

export interface ModesDocument {
  file_mode: string | number;
  directory_mode: string | number;
}

/** The additional settings of destinations whose storage has modes. */
export function modeSettings({ mode }: Kinds): Settings {
  return {
    file_mode: mode({ owner: [6, 7] })
      .default(644)
      .description(
        'Mode of published files, whatever the umask. Runs correct it. The last digit is 0, 1, 4 or 5.',
      )
      .example(640),
    directory_mode: mode({ owner: [7] })
      .default(755)
      .description('Mode of created directories, whatever the umask. Below the bundle path, runs correct it.')
      .example(750),
  };
}

export function resolveModes({ file_mode, directory_mode }: ModesDocument): FileModes {
  return { file: parseInt(String(file_mode), 8), directory: parseInt(String(directory_mode), 8) };
}
