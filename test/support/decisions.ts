import type { Catalog, CatalogState, OutputRecord, Pending } from '../../src/core/catalog/catalog.ts';
import { digestOf } from '../../src/core/lib/digest.ts';
import type { RelativePath } from '../../src/core/lib/paths.ts';
import type {
  Action,
  BundleIdentity,
  Observation,
  Plan,
  PlannedOutput,
  ReasonCode,
} from '../../src/core/publish/plan.ts';
import { bytesBody } from '../../src/core/storage/body.ts';
import { owner } from '../faults/world.ts';
import { instant } from './instant.ts';

/* The parts of decisions, as values: planned outputs, their records, states, and observations. */

export const bundle: BundleIdentity = {
  source: { backend: 'local', id: '/source', path: 'bundle' },
  created: instant('2026-11-20T00:00:00Z'),
};

/** A planned output of one byte. */
export function output(path: string, overrides: Partial<PlannedOutput> = {}): PlannedOutput {
  return {
    path: path as RelativePath,
    owner,
    source: { backend: 'local', id: '/source', path: 'bundle' },
    kind: 'file',
    digest: digestOf(path),
    size: 1,
    generated: { contentType: 'text/plain', cacheControl: null, generator: null },
    url: null,
    body: bytesBody('x'),
    ...overrides,
  };
}

/** The record of `output(path)`. */
export function record(path: string, overrides: Partial<OutputRecord> = {}): OutputRecord {
  const { kind, digest, size, generated, url, source } = output(path);
  return {
    path: path as RelativePath,
    owner,
    source,
    kind,
    digest,
    size,
    generated,
    url,
    updatedAt: '2026-11-20T00:00:00.000Z',
    ...overrides,
  };
}

export const catalog = (
  outputs: OutputRecord[],
  pending: Pending | null = null,
): Extract<CatalogState, { kind: 'valid' }> => ({
  kind: 'valid',
  catalog: {
    generation: 1,
    updatedAt: '2026-11-20T00:00:00.000Z',
    bundles: [],
    outputs,
    pending,
  } satisfies Catalog,
});

export const intent = (overrides: Partial<Pending> = {}): Pending => ({
  attemptId: 'attempt-1',
  owner,
  action: 'upsert_additive',
  startedAt: '2026-11-20T00:00:00.000Z',
  holder: null,
  renewals: 0,
  outputs: [],
  removes: [],
  ...overrides,
});

/** Only the state was observed. */
export const unseen: Omit<Observation, 'state'> = {
  isSettled: false,
  contentPresent: false,
  unmanagedFile: null,
  unrecorded: [],
  nested: [],
  damaged: new Map(),
  obstacles: new Map(),
  contents: [],
  keepsHeaders: false,
  maxBackupBytes: null,
};

/** A decision without writes. Its reason is 'because'. */
export const planOf = (
  action: Action,
  code: ReasonCode = 'content_unmanaged',
  destinationPath = 'bundle',
): Plan => ({
  owner,
  bundle,
  destinationPath,
  action,
  reason: { code, message: 'because' },
  writes: [],
  kept: [],
  removes: [],
  clears: false,
  unkept: [],
  untouched: [],
  changes: [],
});
