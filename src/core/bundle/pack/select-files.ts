import ignore from 'ignore';
import { type Finding, finding, WaybillError } from '../../lib/errors.ts';
import { compareCodeUnits, findCollisions, parseRelativePath, type RelativePath } from '../../lib/paths.ts';
import { composeHint, foldedPath, invalidKey, notUtf8, renameHint, shellQuoted } from '../../lib/text.ts';
import { readAll } from '../../storage/body.ts';
import { joinKey, type Key, listedKey, nameOf } from '../../storage/key.ts';
import type { Entry, EntryType, Stamp, Storage, UnreadableName } from '../../storage/storage.ts';
import { ListingLimit, maxListedBytes } from '../../storage/untrusted.ts';
import { maxListedFiles, maxPathSegments } from '../limits.ts';
import { manifestName, signatureName } from '../manifest.ts';

/*
 * Selects the files of a directory that go into a bundle.
 */

/**
 * The name of the file at the root of a directory that says which files to leave out. It has `.gitignore`
 * syntax.
 */
const ignoreFileName = '.waybillignore';
const maxIgnoreFileBytes = 1 << 20;
/** The maximum number of names to list. Their stamps need 400 bytes of memory each. */
const maxSelected = 4 * maxListedFiles;

/**
 * Files that version control systems, editors and desktops leave behind. To include one of them anyway, use a
 * pattern such as `--exclude '!.git'`.
 */
export const excludedByDefault: readonly string[] = [
  ...['.git', '.hg', '.svn'],
  ...['.DS_Store', '._*', 'Icon[\r]', '.Spotlight-V100', '.Trashes', 'Thumbs.db', 'desktop.ini'],
  ...['*~', '.*.sw[a-p]', '.#*', '\\#*#', '.idea', '.vscode'],
  ignoreFileName,
];

/** Names that often belong to files with secrets. They are only published if a pattern asks for them. */
export const secretNames: readonly string[] = [
  ...['.env', '.env.*', '!.env.example', '!.env.sample', '!.env.template'],
  ...['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519', '*.pem', '*.key', '*.p12', '*.pfx', '*.ppk'],
  ...['.netrc', '.npmrc', '.pgpass', '.htpasswd', '.git-credentials'],
];

/** Patterns in `.gitignore` syntax. The last one that matches wins. */
export interface Patterns {
  /** Include only these files, even those that may contain secrets. Default: all files that do not. */
  include?: readonly string[];
  exclude?: readonly string[];
  /** How to deal with symbolic links. Default: `refuse`. */
  links?: LinkPolicy;
}

/**
 * How to deal with symbolic links: `refuse` makes them an error, `skip` leaves them out, and `follow` uses
 * the file or directory that they point at. `follow` works only on a storage wrapped by `followLinks`.
 */
type LinkPolicy = 'refuse' | 'follow' | 'skip';

export interface SelectedFile {
  path: RelativePath;
  /** The size in bytes. */
  size: number;
  /** The file's stamp; null if the caller did not ask for stamps or the storage has none. */
  stamp: Stamp | null;
}

export interface FileSelection {
  /** Sorted by path. */
  files: SelectedFile[];
  findings: Finding[];
  /** Excluded paths, sorted. If a path ends with `/`, the whole directory is excluded. */
  excluded: string[];
}

/**
 * Selects files by these patterns and the directory's `.waybillignore`. `manifest.json` and its signature are
 * not included, unless the manifest is content, because it is not a bundle's. Excluded directories are not
 * listed. If a selected file may not be in a bundle because it is a link, a special file, a secret, or has a
 * path that the receiver would refuse, the result has a finding for it. Throws `usage` if `.waybillignore` is
 * not a text file or is a link that is not followed, and the storage's error if a directory cannot be listed.
 */
export async function selectFiles(
  storage: Storage,
  patterns: Patterns,
  { stamps = false, manifestIsContent = false }: { stamps?: boolean; manifestIsContent?: boolean } = {},
): Promise<FileSelection> {
  const rules = rulesOf(patterns, await readIgnoreFile(storage));
  const files: SelectedFile[] = [];
  const findings: Finding[] = [];
  const excluded: string[] = [];
  const pending: (Key | '')[] = [''];
  const limit = new ListingLimit({ names: maxSelected, bytes: maxListedBytes });
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    const onUnreadable = ({ reason, decoded, escaped }: UnreadableName): void => {
      const file = joinKey(directory, escaped);
      if (reason === 'no_path')
        findings.push(finding('warning', 'key_skipped', `${invalidKey}, so it was skipped`, { file }));
      else if (!rules.isExcluded(joinKey(directory, decoded)))
        findings.push(
          finding('error', 'unsafe_path', `${notUtf8}; ${renameHint}, or exclude it`, {
            file,
          }),
        );
    };
    const options = { recursive: false, onUnreadable, stamps, limit };
    for await (const entry of storage.list(directory, options)) {
      const { key, type, size, stamp = null } = entry;
      const isContent = manifestIsContent && key === manifestName && type === 'file';
      if ((key === manifestName || key === signatureName) && type === 'file' && !isContent) continue;
      const name = type === 'directory' ? `${key}/` : key;
      if (rules.isExcluded(name) || (type === 'link' && patterns.links === 'skip')) excluded.push(name);
      else if (type === 'directory' && foldedPath(key) !== manifestName) pending.push(key);
      else if (!rules.isIncluded(key)) excluded.push(name);
      else {
        const problem = isContent ? null : rejectionReason(entry, rules);
        if (problem === null) files.push({ path: key as string as RelativePath, size, stamp });
        else findings.push(finding('error', problem.code, problem.message, { file: key }));
      }
    }
  }
  files.sort((a, b) => compareCodeUnits(a.path, b.path));
  for (const { index, reason } of findCollisions(files.map(({ path }) => path)))
    findings.push(finding('error', 'path_collision', reason, { file: files[index]?.path ?? null }));
  findings.sort((a, b) => compareCodeUnits(a.file ?? '', b.file ?? ''));
  return { files, findings, excluded: excluded.sort(compareCodeUnits) };
}

export function noFiles({ excluded: [first, ...others] }: Pick<FileSelection, 'excluded'>): Finding {
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const message = first === undefined ? 'it has no files' : `it has only excluded files (${first}${more})`;
  return finding('error', 'no_files', message, { file: '.' });
}

type Test = (path: string) => boolean;

interface Rules {
  isExcluded: Test;
  isIncluded: Test;
  /** Whether the file looks like a secret, judging by its name, and no pattern includes it. */
  isSecret: Test;
}

function rulesOf({ include = [], exclude = [] }: Patterns, ignored: readonly string[]): Rules {
  const own = [...ignored, ...exclude];
  const restored = own.filter((pattern) => pattern.startsWith('!'));
  const isAny: Test = () => true;
  return {
    isExcluded: matcher([...excludedByDefault, ...own], own.length === 0 ? anyOf(excludedByDefault) : isAny),
    isIncluded: include.length === 0 ? isAny : matcher(include),
    isSecret: include.length === 0 ? matcher([...secretNames, ...restored], anyOf(secretNames)) : () => false,
  };
}

async function readIgnoreFile(storage: Storage): Promise<string[]> {
  const key = listedKey(ignoreFileName);
  const found = await storage.stat(key);
  if (found === undefined) return [];
  if (found.type !== 'file') throw notAnIgnoreFile(found.type);
  const bytes = await readAll(storage, key, maxIgnoreFileBytes);
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).split(/\r?\n/);
  } catch (error) {
    throw new WaybillError('usage', `"${ignoreFileName}" is not UTF-8 text`, {
      hint: 'write one pattern per line, in the syntax of .gitignore',
      cause: error,
    });
  }
}

/** Without its patterns, files that it excludes would be published. */
function notAnIgnoreFile(type: EntryType): WaybillError {
  const isLink = type === 'link';
  return new WaybillError(
    'usage',
    `"${ignoreFileName}" is ${isLink ? 'a symbolic link, which is not followed' : 'not a regular file'}`,
    {
      hint: isLink
        ? 'replace it with a copy of the file that it leads to, or use --links follow (links: follow in a source)'
        : 'replace it with a text file of patterns, or remove it',
    },
  );
}

/**
 * Returns a function that tests whether the patterns match a path. The `ignore` package is slow, because it
 * goes through the patterns one by one, so only paths that pass `mayMatch` get there. `allowRelativePaths`
 * turns off its check for valid paths, since `parseRelativePath` has checked them.
 */
function matcher(patterns: readonly string[], mayMatch: Test = () => true): Test {
  const matching = ignore({ ignorecase: false, allowRelativePaths: true }).add([...patterns]);
  return (path) => mayMatch(path) && matching.ignores(path);
}

/**
 * Returns a function that tests whether any segment of a path matches one of these patterns, which have no
 * slashes. They are combined into a single regular expression.
 */
function anyOf(patterns: readonly string[]): Test {
  const forms = patterns
    .filter((pattern) => !pattern.startsWith('!'))
    .map((pattern) => pattern.replaceAll('.', '\\.').replaceAll('*', '[^/]*'));
  const form = new RegExp(`(?:^|/)(?:${forms.join('|')})(?:/|$)`);
  return (path) => form.test(path);
}

function rejectionReason(
  { key, type, linkTarget, unfollowed }: Entry,
  { isSecret }: Rules,
): { code: string; message: string } | null {
  if (foldedPath(key) === manifestName)
    return { code: 'unsafe_path', message: 'has the name of the manifest; rename or exclude it' };
  if (type === 'link')
    return {
      code: 'file_is_link',
      message:
        unfollowed ??
        'is a symbolic link; leave links out with --links skip, or publish their targets with --links follow (in a configuration: links: skip or links: follow, under source:)',
    };
  if (type !== 'file')
    return { code: 'file_not_regular', message: 'is neither a file nor a directory; exclude it' };
  if (isSecret(key))
    return {
      code: 'secret_file',
      message: `may hold secrets; leave it out with --exclude ${shellQuoted(patternOf(key))}, or publish it anyway with --exclude ${shellQuoted(`!${patternOf(key)}`)}`,
    };
  if (linkTarget !== undefined && isSecret(nameOf(linkTarget)))
    return {
      code: 'secret_file',
      message: `leads to "${linkTarget}", which may hold secrets; exclude it, or copy the file`,
    };
  if (key.split('/').length > maxPathSegments)
    return { code: 'unsafe_path', message: `has more than ${maxPathSegments} segments; exclude it` };
  const verdict = parseRelativePath(key);
  if (verdict.ok) return null;
  const remedy = key.normalize('NFC') === key ? 'rename' : `${composeHint},`;
  return { code: 'unsafe_path', message: `has a path that ${verdict.reason}; ${remedy} or exclude it` };
}

/** Returns a pattern in `.gitignore` syntax that matches this path literally. */
function patternOf(path: string): string {
  return path.replace(/[\\*?[\]]|^[!#]| $/g, '\\$&');
}
