import t from 'tap';
import { maxRateOf, withMaxRate } from '../../../src/cli/setup/max-rate.ts';
import type { ChosenPipeline } from '../../../src/cli/setup/set-up.ts';
import { parseConfig } from '../../../src/core/config/load-config.ts';

t.test('--max-rate is a rate in bytes per second', (t) => {
  t.equal(maxRateOf({}), undefined);
  for (const [text, bytes] of [
    ['2MiB/s', 2 << 20],
    ['500KiB', 500 << 10],
    ['65536', 65_536],
    ['1KiB/s', 1024],
  ] as const)
    t.equal(maxRateOf({ maxRate: text }), bytes);
  for (const text of ['', '0', '1023', '2', '-1', '2Mbit', '2 MiB/s', '2MiB/h', '1.5MiB', 'fast'])
    t.throws(() => maxRateOf({ maxRate: text }), {
      code: 'usage',
      message: `--max-rate: "${text}" is not a rate of at least 1KiB/s, such as 2MiB/s, 500KiB or 65536 (bytes per second)`,
      hint: 'write it like 2MiB/s',
    });
  t.end();
});

t.test('--max-rate of a run replaces the limit of every destination', async (t) => {
  const text =
    'pipelines: [{id: p, source: {backend: local, path: in}, destinations: [{id: a, backend: local, path: a, max_rate: 1MiB/s}, {id: b, backend: local, path: b}]}]';
  const { config } = parseConfig(Buffer.from(text), '/etc/waybill/c.yml', { home: '/root' });
  const chosen: ChosenPipeline[] = config.pipelines.map((pipeline) => ({
    pipeline,
    destinations: pipeline.destinations,
  }));
  const ratesOf = (all: readonly ChosenPipeline[]): (number | null)[] =>
    all.flatMap(({ pipeline }) => pipeline.destinations.map(({ maxRate }) => maxRate));
  t.same(ratesOf(withMaxRate(chosen, undefined)), [1 << 20, null]);
  t.same(ratesOf(withMaxRate(chosen, 2048)), [2048, 2048]);
});
