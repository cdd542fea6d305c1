/*
 * What a bundle may hold at most, in whatever way it comes: a manifest and an archive refuse the same.
 */

/** Files beside the manifest. A source of uploads may set less (`max_files`). */
export const maxListedFiles = 250_000;

/** Segments of a path: the file's name and its directories. */
export const maxPathSegments = 64;
