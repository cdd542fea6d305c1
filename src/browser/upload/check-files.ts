import { manifestName, type NamedFile } from './dropped-archive.ts';

/** The limits of the pipeline. They are checked here only for convenience; the daemon enforces them. */
export interface UploadLimits {
  maxBytes: number;
  maxFiles: number;
}

const maxNamed = 5;

/**
 * Checks files before they are uploaded. Returns everything that is wrong with them. The daemon makes the
 * same checks, and also compares the files with the manifest. `manifest` is the text of the manifest, or null
 * if there is none or it is in an archive that cannot be read in the browser.
 */
export function problemsOf(
  files: readonly NamedFile[],
  { isArchive, manifest, limits }: { isArchive: boolean; manifest: string | null; limits: UploadLimits },
): string[] {
  const bytes = files.reduce((sum, { file }) => sum + file.size, 0);
  const unsafe = files.flatMap(({ path }) => pathProblem(path) ?? []);
  return [
    ...(bytes > limits.maxBytes
      ? [`${numberText(bytes)} bytes are more than the limit of ${numberText(limits.maxBytes)} bytes.`]
      : []),
    ...(!isArchive && files.length > limits.maxFiles
      ? [`${numberText(files.length)} files are more than the limit of ${numberText(limits.maxFiles)}.`]
      : []),
    ...unsafe.slice(0, maxNamed),
    ...(unsafe.length > maxNamed ? [`${unsafe.length - maxNamed} more paths cannot be published.`] : []),
    ...(manifest === null ? [] : manifestProblems(manifest)),
  ];
}

/** Returns the reason why a file with this name or path cannot be published, or null if it can. */
export function pathProblem(path: string): string | null {
  const shown = JSON.stringify(path);
  if (/[\p{Cc}\p{Zl}\p{Zp}]/u.test(path)) return `${shown} has a control character.`;
  if (path.includes('\\')) return `${shown} has a backslash. Separate directories by "/".`;
  const bad = path.split('/').find((segment) => ['', '.', '..'].includes(segment));
  if (bad !== undefined) return `${shown} has ${bad === '' ? 'an empty segment' : `the segment "${bad}"`}.`;
  return /(^|\/)\.publisher/i.test(path) ? `${shown} is reserved for waybill.` : null;
}

function manifestProblems(text: string): string[] {
  try {
    const parsed = JSON.parse(text) as { files?: unknown } | null;
    return Array.isArray(parsed?.files) ? [] : [`${manifestName} has no list "files".`];
  } catch (error) {
    return [`${manifestName} is not valid JSON: ${error instanceof Error ? error.message : ''}`];
  }
}

/** Returns a warning about files that are often uploaded by mistake, or null if there are none. */
export function hiddenNote(files: readonly NamedFile[]): string | null {
  const hidden = files.filter(({ path }) => /(^|\/)(\.[^/]+|Thumbs\.db)(\/|$)/.test(path));
  const [first] = hidden;
  if (first === undefined) return null;
  return `${hidden.length === 1 ? '1 hidden file is' : `${numberText(hidden.length)} hidden files are`} included, for example ${first.path}.`;
}

export function numberText(value: number): string {
  return value.toLocaleString('en-GB');
}
