import t from 'tap';
import {
  mergedPage,
  type Place,
  placeOf,
  placeText,
} from '../../../../src/workers/bullmq/shards/sharded-reads.ts';
import type { RunPage } from '../../../../src/workers/queue/run-filter.ts';
import type { RunRecord } from '../../../../src/workers/queue/run-record.ts';
import { generator } from '../../../support/sampling.ts';

const run = (id: string, at: number): RunRecord =>
  ({ run_id: id, accepted_at: new Date(Date.UTC(2026, 10, 20) + at).toISOString() }) as RunRecord;

/** Runs of a list after a cursor, up to a maximum. */
function pageOf(all: readonly RunRecord[], place: Place[number], most: number): RunPage {
  if (place === 'end') return { runs: [], next: null };
  const from = place === null ? 0 : all.findIndex(({ run_id }) => run_id === place.before) + 1;
  const runs = all.slice(from, from + most);
  return { runs, next: from + most < all.length ? (runs.at(-1)?.run_id ?? null) : null };
}

function read(lists: readonly (readonly RunRecord[])[], limit: number): RunRecord[][] {
  const pages: RunRecord[][] = [];
  for (let text: string | null = placeText(lists.map(() => null)); text !== null;) {
    const place = placeOf(text, lists.length) as Place;
    const found = mergedPage(
      lists.map((all, list) => pageOf(all, place[list] ?? null, limit)),
      place,
      limit,
    );
    pages.push(found.runs);
    text = placeText(found.place);
  }
  return pages;
}

t.test('pages of several lists have every run once, each list in its order, the newest first', async (t) => {
  const random = generator('merged pages');
  for (let round = 0; round < 300; round += 1) {
    const lists = Array.from({ length: 2 + Math.floor(random() * 3) }, (_, list) => {
      const count = Math.floor(random() * 12);
      return Array.from({ length: count }, (_, index) =>
        run(`p${list}.${index}`, (count - index) * 1_000 + Math.floor(random() * 2_500)),
      );
    });
    const limit = 1 + Math.floor(random() * 5);
    const pages = read(lists, limit);
    const runs = pages.flat();
    const expected = lists.flat();
    if (runs.length !== expected.length || new Set(runs).size !== expected.length)
      t.fail(`round ${round}: ${runs.length} of ${expected.length}`);
    for (const all of lists)
      t.same(
        runs.filter((one) => all.includes(one)),
        all,
      );
    t.ok(pages.slice(0, -1).every((page) => page.length === limit));
  }
  const sorted = [
    [run('a.2', 9), run('a.1', 3)],
    [run('b.3', 8), run('b.2', 5), run('b.1', 1)],
  ];
  t.same(
    read(sorted, 2).map((page) => page.map(({ run_id }) => run_id)),
    [['a.2', 'b.3'], ['b.2', 'a.1'], ['b.1']],
  );
});

t.test('ends the page at a list that returns less than it has', async (t) => {
  const pages: RunPage[] = [
    { runs: [run('a.9', 9)], next: 'a.5' },
    { runs: [run('b.7', 7), run('b.6', 6)], next: null },
  ];
  const { runs, place } = mergedPage(pages, [null, null], 10);
  t.same(
    runs.map(({ run_id }) => run_id),
    ['a.9'],
  );
  t.same(place, [{ before: 'a.5' }, null]);
  t.equal(placeText(place), 'a.5,');
});

t.test('does not use a run ID as a position in several lists', async (t) => {
  t.equal(placeOf('maps.20261120T020434Z.k3f9q2ab7x', 3), null);
  t.equal(placeOf('a,b', 3), null);
  t.same(placeOf(',!,c.1', 3), [null, 'end', { before: 'c.1' }]);
});
