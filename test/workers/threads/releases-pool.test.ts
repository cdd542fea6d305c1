import t from 'tap';
import { parseConfig } from '../../../src/core/config/load-config.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { errorRecord, finding, WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { answerOf, releasesPool } from '../../../src/workers/threads/publishing-pool.ts';
import type { ReleasesRequest } from '../../../src/workers/threads/releases-request.ts';
import { runSettings } from '../../../src/workers/threads/run-settings.ts';

// Threads take seconds to start on a busy machine.
t.setTimeout(0);

t.test(
  'a limited number of requests wait for a thread, and one pipeline leaves places for others',
  async (t) => {
    const { config } = parseConfig(Buffer.from('pipelines: []'), '/etc/waybill.yml', { home: '/' });
    const pool = releasesPool({
      ...{ clock: systemClock, log: silentLog, env: {}, settings: runSettings(config) },
      ...{ verbose: () => false, notify: () => undefined },
      workerFile: new URL('../../fixtures/workers/waiting-releases.mjs', import.meta.url),
    });
    t.teardown(() => pool.close());
    const request = { runId: 'releases.1', pipelineId: 'maps', destinationId: 'site', path: null } as const;
    const list: ReleasesRequest = { ...request, kind: 'list' };
    const other: ReleasesRequest = { ...list, pipelineId: 'site' };
    const stop = new AbortController();
    const asked = Array.from({ length: 24 }, async () => pool.ask(list, stop.signal));
    await t.rejects(pool.ask(list, stop.signal), { code: 'server_busy' }, 'its pipeline has its share');
    const others = Array.from({ length: 8 }, async () => pool.ask(other, stop.signal));
    const ended = Promise.allSettled([...asked, ...others]);
    await t.rejects(pool.ask({ ...list, pipelineId: 'third' }, stop.signal), { code: 'server_busy' });
    stop.abort(new WaybillError('aborted', 'by the will of the test'));
    for (const outcome of await ended)
      t.match(outcome, { status: 'rejected', reason: { code: 'aborted' } }, 'each ends with the signal');
    await t.rejects(pool.ask(list, stop.signal), { code: 'aborted' }, 'which is no longer server_busy');
  },
);

t.test('a refused request keeps the hint and the findings of its error', async (t) => {
  const details = { hint: 'correct it', findings: [finding('error', 'no_files', 'files is empty')] };
  const refused = errorRecord(new WaybillError('invalid_bundle', 'the bundle is invalid', details));
  t.throws(() => answerOf<never>(structuredClone({ refused })), { code: 'invalid_bundle', ...details });
});
