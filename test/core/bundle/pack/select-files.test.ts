import ignore from 'ignore';
import t from 'tap';
import {
  excludedByDefault,
  secretNames,
  selectFiles,
} from '../../../../src/core/bundle/pack/select-files.ts';
import { bytesBody } from '../../../../src/core/storage/body.ts';
import { listedKey } from '../../../../src/core/storage/key.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Names that a pattern matches, and names that differ from them by one character. */
function namesFor(pattern: string): string[] {
  const name = pattern.replace(/^!|\\/g, '').replaceAll('*', 'x').replace('[a-p]', 'b').replace('[\r]', '');
  return [name, `${name}x`, `x${name}`, name.slice(1), name.replace('.', '_')].filter((each) => each !== '');
}

t.test('the default patterns match like the ignore package with one pattern at a time', async (t) => {
  const names = [...new Set([...excludedByDefault, ...secretNames].flatMap(namesFor))];
  const paths = names.flatMap((name) => [
    `in-root/${name}`,
    `a/b/in-${name.length}/${name}`,
    `${name}/below`,
  ]);
  const storage = memoryStorage({ flavour: 'objects' });
  for (const path of paths) await storage.write(listedKey(path), bytesBody('x'), { mode: 'replace' });
  const matches = (patterns: readonly string[]): ((path: string) => boolean) => {
    const matcher = ignore({ ignorecase: false, allowRelativePaths: true }).add([...patterns]);
    return (path) => matcher.ignores(path);
  };
  const [isExcluded, isSecret] = [matches(excludedByDefault), matches(secretNames)];
  const remaining = paths.filter((path) => !isExcluded(path));
  const { files, findings } = await selectFiles(storage, {});
  t.same(
    files.map(({ path }) => path as string),
    remaining.filter((path) => !isSecret(path)).sort(),
  );
  const secrets = findings.filter(({ code }) => code === 'secret_file').map(({ file }) => file);
  t.same(secrets, remaining.filter(isSecret).sort());
  t.ok(secrets.includes('.env/below'), 'a directory with the name of a secret contains secrets');
});
