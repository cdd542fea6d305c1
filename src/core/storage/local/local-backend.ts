import { realPath } from '../../lib/real-path.ts';
import { type PathBase, resolvePath } from '../../lib/settings/parse-values.ts';
import type { StorageBackend } from '../backend.ts';
import { type FileModes, type ModesDocument, modeSettings, privateModes, resolveModes } from '../modes.ts';

export interface LocalDocument {
  backend: 'local';
  /** The path as configured. It may be relative, or start with `~/`. */
  path: string;
}

export interface LocalLocation {
  backend: 'local';
  /** An absolute path. */
  path: string;
  /**
   * The modes of new files and directories. Only set for destinations. In other locations, only this user has
   * access.
   */
  modes?: FileModes;
}

export const localBackend: StorageBackend<
  'local',
  LocalDocument,
  LocalLocation,
  LocalDocument & ModesDocument
> = {
  name: 'local',
  summary: 'A directory on this machine.',
  settings: ({ path }) => ({
    path: path().required().description('The directory of the files.').example('./public'),
  }),
  destinationSettings: modeSettings,
  setTogether: [],
  resolve: resolveLocal,
  resolveDestination: (document, base) => ({
    ...resolveLocal(document, base),
    modes: resolveModes(document),
  }),
  secrets: () => [],
  describe: ({ path }) => path,
  place: ({ path }) => ({ container: 'local', root: realPath(path) }),
  localPaths: ({ path }) => [{ setting: 'path', path, use: 'content' }],
  placeSetting: 'path',
  destinationFault: ({ path }) =>
    path === '/' ? 'found the root of the file system; expected a directory of its own' : null,
  fileConcurrency: { files: 8, because: null },
  protectedRoot: () => null,
  open: async ({ path, modes = privateModes }, _context, options) => {
    const { localStorage } = await import('./local-storage.ts');
    return localStorage(path, { ...options, modes });
  },
};

function resolveLocal({ path }: LocalDocument, base: PathBase): LocalLocation {
  return { backend: 'local', path: resolvePath(path, base) };
}
