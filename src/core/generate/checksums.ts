import { compareCodeUnits } from '../paths.ts';
import { hexOf } from '../digest.ts';
import { checksumsName } from './generated-names.ts';
import { digestInputs, keptBytes, type Generator, type GeneratorInput } from './generator.ts';

/**
 * `SHA256SUMS`, as `sha256sum -c` reads it: every listed file and every other generated one. Names never need
 * the format's escapes, since the path policy has no backslash and no line break.
 */
export const checksumsGenerator: Generator = {
  name: 'checksums',
  version: 1,
  switchedBy: 'checksums',
  describe: async (input) => [
    {
      path: checksumsName,
      kind: 'checksums',
      contentType: 'text/plain; charset=utf-8',
      inputs: digestInputs(covered(input)),
      open: keptBytes(() =>
        covered(input)
          .map(([path, hex]) => `${hex}  ${path}\n`)
          .join(''),
      ),
    },
  ],
};

function covered({ bundle, siblings }: GeneratorInput): [path: string, hex: string][] {
  return [...bundle.files, ...siblings]
    .map(({ path, digest }): [string, string] => [path, hexOf(digest)])
    .sort(([a], [b]) => compareCodeUnits(a, b));
}
