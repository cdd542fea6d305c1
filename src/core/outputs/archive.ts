import { manifestName } from '../bundle/manifest.ts';
import { dateOf } from '../lib/instant.ts';
import { compareCodeUnits } from '../lib/paths.ts';
import { gzip } from '../bundle/archive/gzip.ts';
import { archiveName } from './generated-names.ts';
import { digestInputs, type Generator, type GeneratorInput } from './generator.ts';
import { writeTar, type TarFile } from '../bundle/archive/tar-writer.ts';

/**
 * The whole bundle as a tar.gz: the original `manifest.json`, then the listed files. It can be uploaded as a
 * bundle again. It is generated on each `open` and never stored.
 */
export const archiveGenerator: Generator = {
  name: 'archive',
  version: 2,
  switchedBy: 'archive',
  describe: async ({ bundle }) => {
    const files = filesOf(bundle);
    return [
      {
        path: archiveName(bundle),
        kind: 'archive',
        contentType: 'application/gzip',
        inputs: digestInputs(
          files.map(({ path, digest }) => [path, digest]),
          bundle.created,
        ),
        open: () => gzip(writeTar(files, dateOf(bundle.created))),
      },
    ];
  },
};

function filesOf({ manifestFile, files }: GeneratorInput['bundle']): TarFile[] {
  const sorted = [...files].sort((a, b) => compareCodeUnits(a.path, b.path));
  return [{ path: manifestName, ...manifestFile }, ...sorted];
}
