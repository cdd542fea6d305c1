import path from 'node:path';
import { npmPackage } from './npm-package.ts';

/** The oldest supported release, and one of each later line. */
export const nodeReleases = ['20.19.0', '22.23.3', '24.21.0', '26.9.0'] as const;

/** The program of a Node.js release, from its npm package. */
export async function nodeProgram(release: string): Promise<string> {
  return path.join(await npmPackage(`node-${process.platform}-${process.arch}`, release), 'bin/node');
}
