import { type Finding, finding } from '../lib/errors.ts';
import { ancestorsOf, compareCodeUnits, isReservedPath } from '../lib/paths.ts';
import { invalidKey, notUtf8, renameHint } from '../lib/text.ts';
import { joinKey, type Key } from '../storage/key.ts';
import type { Entry, Storage, UnreadableName } from '../storage/storage.ts';
import { type ManifestFile, manifestName, signatureName } from './manifest.ts';

const namesInWarning = 5;

/**
 * Returns a warning about files that are not in the manifest, with the names of some of them. A bundle should
 * not contain any others.
 */
export function unlistedWarning(bundle: string, unlisted: string[]): Finding[] {
  if (unlisted.length === 0) return [];
  const named = unlisted.sort(compareCodeUnits).slice(0, namesInWarning);
  const more = unlisted.length - named.length;
  const list = named.map((name) => JSON.stringify(name)).join(', ') + (more > 0 ? ` and ${more} more` : '');
  const count = unlisted.length === 1 ? '1 file is' : `${unlisted.length} files are`;
  return [
    finding('warning', 'unlisted_files', `${count} not in the manifest and will not be published: ${list}`, {
      file: bundle,
    }),
  ];
}

/** The files of a manifest, compared with a recursive listing of the bundle's directory. */
export interface BundleListing {
  /** The files in the manifest that were found, by path. */
  present: Map<string, Entry>;
  links: Set<string>;
  /** The signature of the manifest; null if there is none. */
  signature: Entry | null;
  unlisted: string[];
  /** Names that cannot be listed in a manifest, escaped and relative to the bundle. */
  unreadable: Record<UnreadableName['reason'], string[]>;
}

export async function listBundle(
  storage: Storage,
  directory: Key | '',
  files: readonly ManifestFile[],
): Promise<BundleListing> {
  const listed = new Set<string>(files.map(({ path }) => path));
  const unreadable: BundleListing['unreadable'] = { not_utf8: [], no_path: [] };
  const listing: BundleListing = {
    present: new Map(),
    links: new Set(),
    signature: null,
    unlisted: [],
    unreadable,
  };
  const start = joinKey(directory, '').length;
  const onUnreadable = ({ reason, directory: above, escaped }: UnreadableName): void =>
    void unreadable[reason].push(joinKey(above, escaped).slice(start));
  for await (const entry of storage.list(directory, { recursive: true, onUnreadable })) {
    const path = entry.key.slice(start);
    if (entry.type === 'link') listing.links.add(path);
    if (listed.has(path)) listing.present.set(path, entry);
    else if (path === signatureName) listing.signature = entry;
    else if (path !== manifestName && !isReservedPath(path)) listing.unlisted.push(path);
  }
  return listing;
}

/**
 * Returns one finding for each reason, with the name of the first entry. A name that is not UTF-8 is an error
 * if a listed file is missing, since it may be that file. Otherwise it is a warning, like any file that is
 * not in the manifest.
 */
export function unreadableFindings({ unreadable }: BundleListing, findings: readonly Finding[]): Finding[] {
  const isAnyMissing = findings.some(({ code }) => code === 'file_missing');
  const report = (
    names: string[],
    severity: 'error' | 'warning',
    message: (more: string) => Finding['message'],
  ): Finding[] => {
    const [file, ...more] = names.sort(compareCodeUnits);
    if (file === undefined) return [];
    const also = more.length === 0 ? '' : `, like ${more.length} more`;
    return [finding(severity, 'unsafe_path', message(also), { file })];
  };
  return [
    ...report(
      unreadable.not_utf8,
      isAnyMissing ? 'error' : 'warning',
      (more) => `${notUtf8}${more}, so that no manifest can list it; ${renameHint}`,
    ),
    ...report(unreadable.no_path, 'warning', (more) => `${invalidKey}${more}, so no manifest can list it`),
  ];
}

export const fileMissing =
  'is listed in the manifest but does not exist; add the file, or remove it from the manifest';

/** Returns the reason why a listed file cannot be published, or null if there is none. */
export function fileProblem(
  entry: Entry | undefined,
  size: number | null,
  linkAboveIt: () => string | undefined,
): { code: string; message: string } | null {
  if (entry === undefined) {
    const link = linkAboveIt();
    if (link === undefined) return { code: 'file_missing', message: fileMissing };
    return {
      code: 'file_is_link',
      message: `lies below the symbolic link "${link}", which is not followed; docs/manifest.md describes links`,
    };
  }
  if (entry.type === 'link')
    return {
      code: 'file_is_link',
      message:
        entry.unfollowed ??
        'is a symbolic link; publish its target with --links follow (links: follow in a source)',
    };
  if (entry.type !== 'file') return { code: 'file_not_regular', message: 'is not a regular file' };
  if (size !== null && entry.size !== size)
    return { code: 'size_mismatch', message: `should have ${size} bytes, but has ${entry.size}` };
  return null;
}

/** Returns the symbolic link that a path goes through, or undefined if there is none. */
export function linkInPath(path: string, links: ReadonlySet<string>): string | undefined {
  if (links.size === 0) return undefined;
  for (const ancestor of ancestorsOf(path)) if (links.has(ancestor)) return ancestor;
  return undefined;
}
