import { resolvePath, type PathBase } from '../../settings/values.ts';
import type { StorageBackend } from '../backend.ts';

export interface LocalDocument {
  backend: 'local';
  /** As written: may be relative or begin with `~/`. */
  path: string;
}

export interface LocalLocation {
  backend: 'local';
  /** Absolute. */
  path: string;
}

export const localBackend: StorageBackend<'local', LocalDocument, LocalLocation> = {
  name: 'local',
  summary: 'A directory of this machine.',
  settings: ({ path }) => ({
    path: path()
      .required()
      .description('Directory; relative to the configuration file, "~/" is your home.')
      .example('./public'),
  }),
  destinationSettings: () => ({}),
  setTogether: [],
  resolve: resolveLocal,
  resolveDestination: resolveLocal,
  secrets: () => [],
  describe: ({ path }) => path,
  place: ({ path }) => ({ container: 'local', root: path }),
  localPaths: ({ path }) => [{ setting: 'path', path, use: 'content' }],
  placeSetting: 'path',
  destinationFault: ({ path }) =>
    path === '/' ? 'found the root of the file system; expected a directory of its own' : null,
  fileConcurrency: { files: 8, because: null },
  protectedRoot: () => null,
  open: async ({ path }, _context, options) => {
    const { localStorage } = await import('./driver.ts');
    return localStorage(path, options);
  },
};

function resolveLocal({ path }: LocalDocument, base: PathBase): LocalLocation {
  return { backend: 'local', path: resolvePath(path, base) };
}
