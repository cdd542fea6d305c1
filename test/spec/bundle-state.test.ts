import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import t from 'tap';
import { pipeline, web, World } from './harness.ts';

/** The state file `.publisher.json` after one publication and after a second. */

const world = new World(
  t,
  pipeline([`${web}, public_base_url: "https://maps.example/"`, 'id: plain, backend: local, path: ./plain']),
);
world.bundle('one', { 'a.txt': 'a', 'b.html': '<p>' });
await world.run();
const first = world.state('web/one');
const plain = world.state('plain/one');
world.bundle('one', { 'a.txt': 'newer', 'b.html': '<p>' }, '2026-11-21T00:00:00Z');
await world.run();
const second = world.state('web/one');

for (const title of [
  'catalog schema version · Current value `4`.',
  'Destination state schema version is `4`.',
])
  t.test(title, async (t) => {
    t.equal(first.schema_version, 4);
  });

t.test(
  'output owners · Owner identity is the pipeline and destination that published the output.',
  async (t) => {
    for (const { owner } of first.outputs) t.same(owner, { pipeline_id: 'maps', destination_id: 'web' });
  },
);

t.test('source identity · Recorded per output.', async (t) => {
  t.equal(first.outputs.length, 2);
  for (const { source } of first.outputs) t.match(source, { backend: 'local', path: 'one' });
});

t.test(
  'per-output record · path, kind, digest, size, `updated_at` timestamp, generated output metadata, optional URL metadata.',
  async (t) => {
    const [a, b] = first.outputs;
    t.match(a, {
      path: 'a.txt',
      kind: 'file',
      digest: `sha256:${createHash('sha256').update('a').digest('hex')}`,
      size: 1,
      updated_at: /^\d{4}-\d\d-\d\dT/,
      generated: { content_type: /text\/plain/ },
      url: 'https://maps.example/one/a.txt',
    });
    t.match(b, { path: 'b.html', generated: { content_type: /text\/html/ } });
    t.notOk(plain.outputs[0]?.url, 'without a configured URL, there is none');
  },
);

t.test('state timestamp · Updated when state is rewritten.', async (t) => {
  t.ok(second.updated_at > first.updated_at);
  await world.run();
  t.equal(world.state('web/one').updated_at, second.updated_at, 'a run without changes does not rewrite it');
});

t.test(
  'manifest `created` · Timestamp used to choose the newest bundle for fixed destinations.',
  async (t) => {
    const fixed = new World(t, pipeline([`${web}, mapping: fixed`]));
    fixed.bundle('a', { 'a.txt': 'older' }, '2026-11-20T00:00:00Z');
    fixed.bundle('b', { 'a.txt': 'newer' }, '2026-11-20T00:00:00.000000001Z');
    await fixed.run();
    t.equal(readFileSync(fixed.at('web/a.txt'), 'utf8'), 'newer');
  },
);
