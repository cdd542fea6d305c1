import type { DestinationConfig, PipelineConfig } from '../../../../src/core/config/config.ts';
import { promote } from '../../../../src/core/publish/promote/promote.ts';
import { type PromotedContent, readPublished } from '../../../../src/core/publish/promote/read-published.ts';
import type { ActionResult, PipelineResult } from '../../../../src/core/publish/results/result.ts';
import type { Storage } from '../../../../src/core/storage/storage.ts';
import { delegate } from '../../../../src/core/storage/wrappers/delegate.ts';
import { contextWith, destinationOf, type Files, owner, snapshot, testClock } from '../../../faults/world.ts';
import { memoryStorage } from '../../../support/memory-storage.ts';

/** Publishes the files of one destination to another: `maps/web` is staging, `maps/live` is production. */

export const v1: Files = { 'a.txt': 'a1', 'dir/c.txt': 'c1', same: 'same' };
export const v2: Files = { 'a.txt': 'a2', 'new/d.txt': 'd2', same: 'same' };

interface Options {
  from?: Partial<PromotedContent>;
  to?: Partial<DestinationConfig>;
  as?: typeof owner;
  keepsPaths?: boolean;
  dryRun?: boolean;
  force?: boolean;
}

export async function promoted(
  staging: Storage,
  live: Storage,
  { from = {}, to = {}, as = owner, keepsPaths = false, dryRun = false, force = false }: Options = {},
): Promise<PipelineResult> {
  const context = {
    ...contextWith(testClock()),
    openStorage: async () => delegate(live, { close: async () => undefined }),
  };
  const pipeline = {
    id: 'maps',
    destinations: [{ ...destinationOf('replacement', 'live'), ...to }],
  } as unknown as PipelineConfig;
  const content = { name: '"web"', mapping: null, layout: 'in_place' as const, ...from };
  const published = await readPublished(staging, content);
  const promotion = { from: '"web"', published, owner: as, to: 'live', keepsPaths };
  return promote(context, pipeline, promotion, { dryRun, force });
}

export const actionsOf = ({ destinations }: PipelineResult): (string | null)[][] =>
  destinations.flatMap(({ actions }) =>
    actions.map(({ destinationPath, action }): (string | null)[] => [destinationPath, action]),
  );

export const errorOf = ({ destinations }: PipelineResult): ActionResult['error'] | undefined =>
  destinations.flatMap(({ actions }) => actions.map(({ error }) => error))[0];

/** The published files of a bundle path, without the catalog. */
export async function filesAt(storage: Storage, at = 'bundle/'): Promise<Files> {
  const all = [...(await snapshot(storage))].filter(
    ([name]) => name.startsWith(at) && !name.includes('.publisher'),
  );
  return Object.fromEntries(
    all.map(([name, text]): [string, string] => [name.slice(at.length), text]).sort(),
  );
}

export const sorted = (files: Files): Files => Object.fromEntries(Object.entries(files).sort());

export const files = (): Storage => memoryStorage({ flavour: 'files' });
export const objects = (): Storage => memoryStorage({ flavour: 'objects' });
