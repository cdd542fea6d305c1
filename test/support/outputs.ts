import { discoverBundles, loadBundle } from '../../src/core/bundle/discover.ts';
import type { SourceBundle } from '../../src/core/bundle/source-bundle.ts';
import type { OutputsOptions } from '../../src/core/publish/outputs.ts';
import type { PlannedOutput } from '../../src/core/publish/plan.ts';
import { bytesBody } from '../../src/core/storage/body.ts';
import { listedKey } from '../../src/core/storage/key.ts';
import type { Storage } from '../../src/core/storage/storage.ts';
import { owner } from '../faults/world.ts';
import { manifestOf } from '../fixtures/tar.ts';
import { memoryStorage } from './memory-storage.ts';

/* Bundles and options for planning outputs. */

export const nothing = { checksums: false, archive: false, index: false, sceneMapPage: false };
export const everything = { ...nothing, checksums: true, archive: true, index: true };

export function options(
  outputs: OutputsOptions['destination']['outputs'],
  more: Partial<OutputsOptions> = {},
): OutputsOptions {
  return {
    owner,
    destination: { outputs, publicBaseUrl: null, cacheControl: null, mapping: 'preserve_relative' },
    destinationPath: 's/42',
    recorded: [],
    ...more,
  };
}

export async function bundleOf(
  files: Record<string, string | Buffer>,
  manifest: Record<string, unknown> = {},
  wrap: (storage: Storage) => Storage = (s) => s,
): Promise<SourceBundle> {
  const storage = memoryStorage({ flavour: 'files' });
  const all = { 'manifest.json': manifestOf(Object.keys(files), manifest), ...files };
  for (const [name, text] of Object.entries(all))
    await storage.write(listedKey(`s/42/${name}`), bytesBody(text), { mode: 'replace' });
  const { candidates, invalid } = await discoverBundles(storage);
  if (candidates[0] === undefined) throw invalid[0]?.error ?? new Error('no bundle');
  return loadBundle(wrap(storage), candidates[0], { backend: 'local', id: '/srv' });
}

export async function bytesOf(output: PlannedOutput): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of output.body.open()) chunks.push(chunk);
  return Buffer.concat(chunks);
}

export const find = (planned: PlannedOutput[], name: string): PlannedOutput =>
  planned.find(({ path }) => path === name)!;
