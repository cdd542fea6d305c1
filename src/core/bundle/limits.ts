/* The limits of a bundle. They apply to manifests and archives alike. */

/**
 * The maximum number of files, not counting the manifest. An upload source may set a lower one
 * (`max_files`).
 */
export const maxListedFiles = 250_000;

/** Segments of a path: the file's name and its directories. */
export const maxPathSegments = 64;
