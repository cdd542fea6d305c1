import t from 'tap';
import { publishedBy } from '../../../src/core/publishers/published-by.ts';
import { PageOfRuns, type RunFilter } from '../../../src/workers/queue/run-filter.ts';
import type { RunRecord } from '../../../src/workers/queue/run-record.ts';
import { acceptedRun } from '../../../src/workers/queue/run-transitions.ts';

const acceptedAt = new Date('2026-11-20T12:00:00Z');
const record: RunRecord = acceptedRun(
  {
    runId: 'site.1',
    pipelineId: 'site',
    staged: '/staging/1',
    bundlePath: 'handbook',
    tokenId: 'ci-token',
    revision: { message: 'Correct the map of Karst', commit: 'f00d5afe', branch: 'main', author: 'Ada' },
    publishedBy: publishedBy('github', { sub: 'repo:acme/site' }, 'sha256:0'),
  },
  acceptedAt,
);

function isListed(filter: RunFilter): boolean {
  const page = new PageOfRuns(10, filter);
  page.add(record);
  return page.result().runs.length === 1;
}

t.test('finds a run by its publisher and its trigger', async (t) => {
  for (const text of ['ci-token', 'KARST correct', 'f00d5afe', 'main ada', 'github', 'repo:acme/site'])
    t.ok(isListed({ text }), text);
  t.notOk(isListed({ text: 'karst grace' }), 'all words must occur');
  const unsigned: RunRecord = { ...record, revision: null, published_by: null };
  const page = new PageOfRuns(10, { text: 'null' });
  page.add(unsigned);
  t.equal(page.result().runs.length, 0, 'missing facts have no text');
});

t.test('a period includes its start and its end', async (t) => {
  const before = new Date(acceptedAt.getTime() - 1);
  const after = new Date(acceptedAt.getTime() + 1);
  t.ok(isListed({ since: acceptedAt, notAfter: acceptedAt }));
  t.notOk(isListed({ since: after }));
  t.notOk(isListed({ notAfter: before }));
});
