/* Limits of a bundle, which apply to both manifests and archives. */

/**
 * The maximum number of files, without the manifest. An upload source can have a lower limit (`max_files`).
 */
export const maxListedFiles = 250_000;

/** The maximum number of segments in a path, counting the file name. */
export const maxPathSegments = 64;
