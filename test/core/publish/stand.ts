import type { DestinationConfig, PipelineConfig } from '../../../src/core/config/config.ts';
import type { CoreContext } from '../../../src/core/context.ts';
import type { Occurrence } from '../../../src/core/notify/event.ts';
import { publishPipeline } from '../../../src/core/publish/publish.ts';
import type { PublishRequest } from '../../../src/core/publish/publish-request.ts';
import type { PipelineResult, Progress } from '../../../src/core/publish/results/result.ts';
import type { OpenOptions } from '../../../src/core/storage/backend.ts';
import { describeLocation, type StorageLocation } from '../../../src/core/storage/backends.ts';
import type { Storage } from '../../../src/core/storage/storage.ts';
import { delegate } from '../../../src/core/storage/wrappers/delegate.ts';
import { contextWith, destinationOf, put, testClock } from '../../faults/world.ts';
import { memoryStorage } from '../../support/memory-storage.ts';

export const oldest = '2026-11-20T00:00:00.000Z';
export const newer = '2026-11-20T00:01:00.000Z';

export interface Settings extends Partial<DestinationConfig> {
  source?: PipelineConfig['source'];
  request?: Partial<PublishRequest>;
  signal?: AbortSignal;
  /** Additions and overrides of the context. `undefined` removes a member. */
  context?: { [K in keyof CoreContext]?: CoreContext[K] | undefined };
}

/** A pipeline from a source to a destination, both in memory, and its visible results. */
export class Stand {
  source: Storage = memoryStorage({ flavour: 'files' });
  web: Storage = memoryStorage({ flavour: 'files' });
  /** Each place that was opened, and its mode. */
  readonly opened: [string, OpenOptions][] = [];
  readonly closed: string[] = [];
  readonly events: Occurrence[] = [];
  readonly progress: Progress[] = [];
  opening: (place: string) => void = () => undefined;

  async add(name: string, files: Record<string, string>, created = oldest): Promise<void> {
    for (const [path, text] of Object.entries(files)) await put(this.source, `${name}/${path}`, text);
    await put(
      this.source,
      `${name}/manifest.json`,
      JSON.stringify({ created, files: Object.keys(files).sort() }),
    );
  }

  async run({ source, request, signal, context: more, ...settings }: Settings = {}): Promise<PipelineResult> {
    const pipeline: PipelineConfig = {
      ...{ id: 'maps', sourceId: '/source', maxWaiting: null, schedule: null, watch: null },
      ...{
        retryForMs: null,
        runTimeoutMs: 3_600_000,
        discoveryTimeoutMs: 3_600_000,
        whileRetrying: 'pass' as const,
      },
      source: source ?? { backend: 'local', path: '/source' },
      sceneMaps: { contentRules: 'warning' },
      destinations: [{ ...destinationOf('replacement'), ...settings }],
    };
    this.progress.length = 0;
    const openStorage = async (location: StorageLocation, options: OpenOptions): Promise<Storage> => {
      const place = describeLocation(location);
      this.opened.push([place, options]);
      this.opening(place);
      const storage = place === '/source' ? this.source : this.web;
      return delegate(storage, { close: async () => void this.closed.push(place) });
    };
    const context = {
      ...contextWith(testClock()),
      openStorage,
      notify: (occurrence: Occurrence) => void this.events.push(occurrence),
      ...(signal !== undefined && { signal }),
      ...more,
    } as CoreContext;
    const onProgress = (progress: Progress): void => void this.progress.push(progress);
    return publishPipeline(context, pipeline, { dryRun: false, force: false, onProgress, ...request });
  }
}
