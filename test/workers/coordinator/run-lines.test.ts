import t from 'tap';
import { WaybillError } from '../../../src/core/lib/errors.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { keepRunLines } from '../../../src/workers/coordinator/run-lines.ts';
import { manualClock } from '../manual-clock.ts';

const lines = () => keepRunLines({ log: silentLog, clock: manualClock() });

t.test('keeps log lines of runs, without paths, debug lines and unexpected errors', (t) => {
  const { log, of } = lines();
  log.debug({ run_id: 'maps.1' }, 'in detail');
  log.info({ pipeline_id: 'maps' }, 'about no run');
  log.info({ run_id: 'maps.1', destination: 'web' }, 'writing /srv/www/index.html');
  log.warn({ run_id: 'maps.1', err: new WaybillError('storage_transient', 'no answer') }, 'trying again');
  log.error({ run_id: 'maps.1', err: new TypeError('x is undefined') }, 'the run broke');
  t.match(of('maps.1'), [
    { at: '2026-11-20T02:04:34.000Z', level: 'info', message: 'writing <path>', destinationId: 'web' },
    { level: 'warn', message: 'trying again: no answer', destinationId: null },
    { level: 'error', message: 'the run broke' },
  ]);
  t.equal(of('maps.1').length, 3);
  t.same(of('maps.2'), []);
  t.end();
});

t.test('keeps the newest lines of the newest runs', (t) => {
  const { log, of } = lines();
  for (let line = 0; line < 60; line++) log.info({ run_id: 'maps.0' }, `line ${line}`);
  t.equal(of('maps.0').length, 50);
  t.equal(of('maps.0').at(-1)?.message, 'line 59');
  for (let run = 1; run <= 200; run++) log.info({ run_id: `maps.${run}` }, 'started');
  t.same([of('maps.0').length, of('maps.1').length, of('maps.200').length], [0, 1, 1]);
  t.end();
});
