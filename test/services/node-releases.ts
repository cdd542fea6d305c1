import path from 'node:path';
import { npmPackage } from './npm-package.ts';

/** The oldest that the program supports, and one of each line since. */
export const nodeReleases = ['20.19.0', '22.23.3', '24.21.0', '26.9.0'] as const;

/** The program of a release of Node.js, from npm's package of it. */
export async function nodeProgram(release: string): Promise<string> {
  return path.join(await npmPackage(`node-${process.platform}-${process.arch}`, release), 'bin/node');
}
