/* Limits of a bundle, which apply to both manifests and archives. */

/**
 * The maximum number of files, not counting the manifest. An upload source may set a lower one
 * (`max_files`).
 */
export const maxListedFiles = 250_000;

/** The maximum number of path segments: the file's name and its directories. */
export const maxPathSegments = 64;
