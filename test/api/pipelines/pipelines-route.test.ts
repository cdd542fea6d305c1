import t from 'tap';
import { placementOf } from '../../../src/api/console/views/destination-view.ts';
import { summariesOf } from '../../../src/api/pipelines/pipelines-route.ts';
import { destinationOf } from '../../faults/world.ts';

t.test('summaries describe how destinations are published, and not their locations', (t) => {
  const rule = { keep: 5, lingerMs: 0, currentInUrl: false, channels: [] };
  const [summary] = summariesOf({
    pipelines: [
      {
        ...{ id: 'maps', sourceId: '/source', maxWaiting: null, schedule: null, watch: null },
        ...{
          retryForMs: null,
          runTimeoutMs: 3_600_000,
          discoveryTimeoutMs: 3_600_000,
          whileRetrying: 'pass' as const,
        },
        source: { backend: 'local', path: '/source' },
        sceneMaps: { contentRules: 'warning' },
        destinations: [
          destinationOf('additive', 'web'),
          {
            ...destinationOf('replacement', 'site'),
            releases: rule,
            publicBaseUrl: 'https://x.example.org/',
            maxRate: 2 << 20,
          },
        ],
      },
    ],
  });
  t.same(summary, {
    pipeline_id: 'maps',
    source: { backend: 'local' },
    destinations: [
      {
        ...{ destination_id: 'web', backend: 'local', mapping: 'preserve_relative', workflow: 'additive' },
        ...{ layout: 'in_place', public_base_url: null, max_rate: null },
      },
      {
        ...{ destination_id: 'site', backend: 'local', mapping: 'preserve_relative' },
        ...{ workflow: 'replacement', layout: 'releases', public_base_url: 'https://x.example.org/' },
        max_rate: 2 << 20,
      },
    ],
    schedule: null,
    watch: false,
  });
  const placements = summary?.destinations.map(placementOf);
  t.same(
    placements?.map(({ rate }) => rate),
    [null, 'at most 2 MiB/s'],
  );
  for (const [index, omitted] of [/drops stay published\./, /drops are removed\. Transfers/].entries()) {
    t.match(placements?.[index]?.publishing, /^Each bundle is published at its own path/);
    t.match(placements?.[index]?.publishing, omitted);
  }
  t.end();
});
