import type { Plugin } from 'esbuild';

export function packageOf(specifier: string): string;
export function emittedName(file: string): string;
export function ownCode(urlOf: (emitted: string) => string): Plugin;
