import ignore, { type Ignore } from 'ignore';
import { maxPathSegments } from '../bundle/limits.ts';
import { manifestName } from '../bundle/manifest.ts';
import { foldedPath } from '../case-folding.ts';
import { finding, type Finding } from '../finding.ts';
import { noPath, notUtf8, renameIt } from '../name-bytes.ts';
import { compareCodeUnits, findCollisions, parseRelativePath, type RelativePath } from '../paths.ts';
import { joinKey, type Key } from '../storage/key.ts';
import type { Entry, Storage, UnreadableName } from '../storage/storage.ts';

/** Never meant to be published; `--exclude '!.git'` takes one back. */
export const excludedAnyway: readonly string[] = ['.git', '.hg', '.svn', '.DS_Store', 'Thumbs.db'];

/** In the syntax of `.gitignore`; of several that match, the last one counts. */
export interface Patterns {
  /** Left out or empty: everything. */
  include?: readonly string[];
  exclude?: readonly string[];
}

export interface SelectedFile {
  path: RelativePath;
  /** In bytes. */
  size: number;
}

/**
 * The files of a directory that the patterns choose, sorted by path, without its `manifest.json`; directories
 * that are excluded are not looked into. Whatever else is chosen and no bundle may hold (links, special
 * files, paths that the receiver refuses) is a finding. Throws the storage's own error if a directory cannot
 * be listed.
 */
export async function selectFiles(
  storage: Storage,
  { include = [], exclude = [] }: Patterns,
): Promise<{ files: SelectedFile[]; findings: Finding[] }> {
  const excluded = matcher([...excludedAnyway, ...exclude]);
  const included = include.length === 0 ? null : matcher(include);
  const files: SelectedFile[] = [];
  const findings: Finding[] = [];
  const pending: (Key | '')[] = [''];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    const onUnreadable = ({ reason, decoded, escaped }: UnreadableName): void => {
      const file = joinKey(directory, escaped);
      if (reason === 'no_path')
        findings.push(finding('warning', 'key_skipped', `${noPath}, so it was skipped`, { file }));
      else if (!excluded.ignores(joinKey(directory, decoded)))
        findings.push(
          finding('error', 'unsafe_path', `${notUtf8}; ${renameIt}, or exclude it`, {
            file,
          }),
        );
    };
    for await (const entry of storage.list(directory, { recursive: false, onUnreadable })) {
      const { key, type, size } = entry;
      if (key === manifestName && type === 'file') continue;
      if (excluded.ignores(type === 'directory' ? `${key}/` : key)) continue;
      if (type === 'directory' && foldedPath(key) !== manifestName) pending.push(key);
      else if (included === null || included.ignores(key)) {
        const problem = whatIsWrong(entry);
        if (problem === null) files.push({ path: key as string as RelativePath, size });
        else findings.push(finding('error', problem.code, problem.message, { file: key }));
      }
    }
  }
  files.sort((a, b) => compareCodeUnits(a.path, b.path));
  for (const { index, reason } of findCollisions(files.map(({ path }) => path)))
    findings.push(finding('error', 'path_collision', reason, { file: files[index]?.path ?? null }));
  return { files, findings: findings.sort((a, b) => compareCodeUnits(a.file ?? '', b.file ?? '')) };
}

/** Paths are relative already; what looks odd in one is judged by `parseRelativePath`. */
function matcher(patterns: readonly string[]): Ignore {
  return ignore({ ignorecase: false, allowRelativePaths: true }).add([...patterns]);
}

function whatIsWrong({ key, type }: Entry): { code: string; message: string } | null {
  if (foldedPath(key) === manifestName)
    return { code: 'unsafe_path', message: 'has the name that the manifest has; rename or exclude it' };
  if (type === 'link')
    return {
      code: 'file_is_link',
      message: 'is a symbolic link, and a bundle holds regular files only; exclude it, or put the file here',
    };
  if (type !== 'file')
    return { code: 'file_not_regular', message: 'is neither a file nor a directory; exclude it' };
  if (key.split('/').length > maxPathSegments)
    return { code: 'unsafe_path', message: `has more than ${maxPathSegments} segments; exclude it` };
  const verdict = parseRelativePath(key);
  return verdict.ok
    ? null
    : { code: 'unsafe_path', message: `has a path that ${verdict.reason}; rename or exclude it` };
}
