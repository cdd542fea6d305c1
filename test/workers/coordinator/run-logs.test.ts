import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { createRunLogs } from '../../../src/workers/coordinator/run-logs.ts';
import { manualClock } from '../manual-clock.ts';

const lines = () => createRunLogs({ log: silentLog, clock: manualClock() });

t.test('keeps log lines of runs, without paths, debug lines and unexpected errors', (t) => {
  const { log, linesOf } = lines();
  log.debug({ run_id: 'maps.1' }, 'in detail');
  log.info({ pipeline_id: 'maps' }, 'about no run');
  log.info({ run_id: 'maps.1', destination: 'web' }, 'writing /srv/www/index.html');
  log.warn({ run_id: 'maps.1', err: new WaybillError('storage_transient', 'no answer') }, 'trying again');
  log.error({ run_id: 'maps.1', err: new TypeError('x is undefined') }, 'the run broke');
  t.match(linesOf('maps.1'), [
    { at: '2026-11-20T02:04:34.000Z', level: 'info', message: 'writing <path>', destinationId: 'web' },
    { level: 'warn', message: 'trying again: no answer', destinationId: null },
    { level: 'error', message: 'the run broke' },
  ]);
  t.equal(linesOf('maps.1').length, 3);
  t.same(linesOf('maps.2'), []);
  t.end();
});

t.test('keeps the newest lines of the newest runs', (t) => {
  const { log, linesOf } = lines();
  for (let line = 0; line < 60; line++) log.info({ run_id: 'maps.0' }, `line ${line}`);
  t.equal(linesOf('maps.0').length, 50);
  t.equal(linesOf('maps.0').at(-1)?.message, 'line 59');
  for (let run = 1; run <= 200; run++) log.info({ run_id: `maps.${run}` }, 'started');
  t.same([linesOf('maps.0').length, linesOf('maps.1').length, linesOf('maps.200').length], [0, 1, 1]);
  t.end();
});
