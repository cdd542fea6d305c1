import t from 'tap';
import type { OutputRecord } from '../../../../src/core/catalog/catalog.ts';
import { recordToJson } from '../../../../src/core/catalog/serialise.ts';
import { digestOf } from '../../../../src/core/lib/digest.ts';
import { refuseLargeCatalog } from '../../../../src/core/publish/decision/refusals.ts';
import type { Plan } from '../../../../src/core/publish/plan.ts';
import { owner } from '../../../faults/world.ts';
import { output, planOf, record } from '../../../support/decisions.ts';

/* Texts that all records of a plan share are stored once, so that a plan of half a gigabyte is cheap. */

const MiB = 2 ** 20;
const long = 'a'.repeat(2 * MiB);

function planning(more: Partial<Plan>): Plan {
  return { ...planOf('upsert_additive'), ...more };
}

/** This many records with the same text. */
const times = (count: number, of: OutputRecord): OutputRecord[] => Array.from({ length: count }, () => of);

t.test('rejects a catalog that is too large because of any of its texts', async (t) => {
  const { source, generated } = record('a');
  const plain = { ...generated, contentType: null };
  const generator = { name: long, version: 1, inputs: digestOf('x') };
  const cases: Record<string, Partial<OutputRecord>> = {
    kind: { kind: long },
    URL: { url: `https://x.example/${long}` },
    pipeline: { owner: { ...owner, pipelineId: long } },
    destination: { owner: { ...owner, destinationId: long } },
    'id of the source': { source: { ...source, id: long } },
    'path of the source': { source: { ...source, path: long } },
    'content type': { generated: { ...plain, contentType: long } },
    'Cache-Control': { generated: { ...plain, cacheControl: long } },
    generator: { generated: { ...plain, generator: { ...generated.generator, ...generator } } },
  };
  for (const [what, texts] of Object.entries(cases)) {
    const one = record('a', texts);
    t.throws(
      () => refuseLargeCatalog(planning({ untouched: times(257, one) })),
      { code: 'catalog_too_large' },
      what,
    );
    t.doesNotThrow(() => refuseLargeCatalog(planning({ untouched: times(250, one) })), what);
  }
});

t.test('counts kept, written and untouched files together if anything changes', async (t) => {
  const one = output('b', { kind: long });
  const some = Array.from({ length: 86 }, () => one);
  const untouched = times(86, record('a', { kind: long }));
  const large = planning({ untouched, writes: some, kept: some, destinationPath: 's/42' });
  t.throws(() => refuseLargeCatalog(large), {
    code: 'catalog_too_large',
    message: /^s\/42: .* 517 MiB, more than the maximum of 512 /,
  });
  for (const action of ['skip_same', 'fail_unmanaged', 'fail_conflict'] as const)
    t.doesNotThrow(() => refuseLargeCatalog({ ...large, action }), action);
  for (const less of [{ untouched: [] }, { writes: [] }, { kept: [] }])
    t.doesNotThrow(() => refuseLargeCatalog({ ...large, ...less }));
});

t.test('a catalog may have exactly the number of bytes that can be read', async (t) => {
  const lineOf = (one: OutputRecord): number => `    ${recordToJson(one)},\n`.length;
  const updatedAt = new Date(0).toISOString();
  const rest = lineOf(record('a', { kind: '', updatedAt }));
  const just = record('a', { kind: 'k'.repeat(2 * MiB - rest), updatedAt });
  t.doesNotThrow(() => refuseLargeCatalog(planning({ untouched: times(256, just) })));
  const longer = record('a', { kind: `${just.kind}k`, updatedAt });
  t.throws(() => refuseLargeCatalog(planning({ untouched: [...times(255, just), longer] })), {
    code: 'catalog_too_large',
  });
});

t.test('with one text that is too long for the streaming parser, the limit is half as large', async (t) => {
  const huge = record('a', { kind: 'a'.repeat(65 * MiB) });
  const plan = (count: number): Plan => planning({ untouched: [...times(count, huge), record('b')] });
  t.doesNotThrow(() => refuseLargeCatalog(plan(3)));
  t.throws(() => refuseLargeCatalog(plan(4)), { code: 'catalog_too_large', message: /maximum of 256 MiB/ });
});
