import t from 'tap';
import { verificationView } from '../../../../src/api/console/views/verification-view.ts';

const report = {
  ...{ destinationPath: '.', verified: 3, skipped: 0, bytes: 2048 },
  ...{ interrupted: false, differing: [], error: null },
} as never as Parameters<typeof verificationView>[0][number]['report'];
const at = new Date('2026-11-20T01:02:03Z');

t.test('a verification without differences is clean, and counts files and bytes', (t) => {
  const view = verificationView([{ path: 'a', report }], { started: at, now: at, published: new Map() });
  t.equal(view.isClean, true);
  t.equal(view.headline, 'All 3 files of 1 bundle are as published');
  t.match(view.bundles, [{ path: 'a', isClean: true, count: '3', noun: 'files', size: '2 KiB' }]);
  t.end();
});

t.test('only the bundles that differ are marked', (t) => {
  const differing = [{ path: 'x.txt', problem: 'missing', expected: '1 B', found: null }];
  const other = { ...report, verified: 1, differing } as never as typeof report;
  const view = verificationView(
    [
      { path: 'a', report },
      { path: 'b', report: other },
    ],
    { started: at, now: at, published: new Map() },
  );
  t.equal(view.isClean, false);
  t.same(
    view.bundles.map(({ isClean, noun, mark }) => [isClean, noun, mark.tone]),
    [
      [true, 'files', 'success'],
      [false, 'file', 'failure'],
    ],
  );
  t.end();
});

t.test('the bundle that was published last comes first', (t) => {
  const published = new Map([
    ['a', '2026-11-19T01:00:00Z'],
    ['b', '2026-11-20T01:00:00Z'],
  ]);
  const reports = ['a', 'b', 'c'].map((path) => ({ path, report }));
  const { bundles } = verificationView(reports, { started: at, now: at, published });
  t.same(
    bundles.map((one) => [one.path, one.published?.age ?? null]),
    [
      ['b', '2 min ago'],
      ['a', '1 d ago'],
      ['c', null],
    ],
  );
  t.end();
});
