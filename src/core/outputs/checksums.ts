import { compareCodeUnits } from '../lib/paths.ts';
import { hexOf } from '../lib/digest.ts';
import { checksumsName } from './generated-names.ts';
import { digestInputs, keptBytes, type Generator, type GeneratorInput } from './generator.ts';

/**
 * `SHA256SUMS` for `sha256sum -c`, with every listed file and every other generated output. Names need no
 * escapes, because the path policy allows neither backslashes nor line breaks.
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
