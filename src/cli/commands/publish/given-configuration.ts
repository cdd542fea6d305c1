import type { DestinationSettings } from './given-destination.ts';

export interface PublishSettings {
  pipelineId: string;
  /** Absolute. */
  directory: string;
  destinations: readonly DestinationSettings[];
  releases: boolean;
  channel: string | undefined;
  index: 'auto' | 'always' | 'never';
  include: readonly string[];
  exclude: readonly string[];
  links: 'refuse' | 'skip';
  url: string | undefined;
  channelUrl: string | undefined;
}

const indexSettings = { auto: 'auto', always: true, never: false } as const;

/**
 * The configuration that publishes as `waybill publish` does, as YAML. Values are JSON, which YAML contains.
 * Pure.
 */
export function configurationText(settings: PublishSettings): string {
  const { pipelineId, directory, destinations, include, exclude, links } = settings;
  const lines = [
    '# Written by waybill publish --save. Run it with: waybill run --config THIS_FILE',
    'pipelines:',
    `  - id: ${JSON.stringify(pipelineId)}`,
    '    source:',
    ...entries('      ', {
      ...{ backend: 'local', path: directory, id: pipelineId, manifest: 'auto' },
      ...(include.length === 0 ? {} : { include }),
      ...(exclude.length === 0 ? {} : { exclude }),
      ...(links === 'refuse' ? {} : { links }),
    }),
    '    destinations:',
    ...destinations.flatMap((destination) => [
      `      - id: ${JSON.stringify(destination.id)}`,
      ...entries('        ', { ...destination.settings, ...common(settings) }),
    ]),
  ];
  return `${lines.join('\n')}\n`;
}

function common({ releases, channel, index, url, channelUrl }: PublishSettings): Record<string, unknown> {
  return {
    ...{ mapping: 'fixed', workflow: 'replacement', outputs: { index: indexSettings[index] } },
    ...(releases ? { layout: 'releases' } : {}),
    ...(channel === undefined
      ? {}
      : {
          releases: {
            channels: { [channel]: channelUrl === undefined ? {} : { public_base_url: channelUrl } },
          },
        }),
    ...(url === undefined ? {} : { public_base_url: url }),
  };
}

function entries(indent: string, values: Record<string, unknown>): string[] {
  return Object.entries(values).map(([key, value]) => `${indent}${key}: ${JSON.stringify(value)}`);
}
