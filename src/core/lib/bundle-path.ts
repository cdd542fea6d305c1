/*
 * Bundle paths as people and configurations give them: relative to the destination root, `.` for the root
 * itself. Pure.
 */

/** How a bundle path is named in a message. */
export function describeBundlePath(destinationPath: string): string {
  return destinationPath === '.' ? 'the destination root' : `"${destinationPath}"`;
}

/** A path within a bundle path, relative to the destination root. */
export function pathWithin(destinationPath: string, within: string): string {
  return destinationPath === '.' ? within : `${destinationPath}/${within}`;
}
