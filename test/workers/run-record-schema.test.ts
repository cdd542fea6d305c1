import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { errorRecord, WaybillError } from '../../src/core/errors.ts';
import {
  acceptedRun,
  failedRun,
  finishedRun,
  progressedRun,
  queuedRun,
  startedRun,
} from '../../src/workers/run-transitions.ts';
import { runResult } from '../contract/queue.ts';

const schema = JSON.parse(readFileSync('schemas/run-record.schema.json', 'utf8')) as object;
const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
addFormats.default(ajv);
const validate = ajv.compile(schema);

t.test('every record that a run goes through is as the schema says', async (t) => {
  const at = new Date('2026-11-20T02:04:34.120Z');
  const job = {
    runId: 'maps.20261120T020434Z.k3f9q2ab7x',
    pipelineId: 'maps',
    staged: '/staging/x',
    bundlePath: '.',
  };
  const queued = queuedRun(acceptedRun(job, at), at);
  const running = progressedRun(startedRun(queued, at), { type: 'bytes', destinationId: 'web', count: 3 });
  const broken = new WaybillError('worker_failed', 'the worker thread broke: cannot open /srv/www', {
    hint: 'again',
  });
  for (const record of [
    acceptedRun(job, at),
    queued,
    running,
    finishedRun(running, runResult('ok').run, at),
    finishedRun(running, runResult('failed').run, at),
    failedRun(running, errorRecord(broken), at),
  ]) {
    t.ok(validate(record), `${record.status}: ${ajv.errorsText(validate.errors)}`);
  }
  t.notOk(
    validate({ ...running, staged: '/staging/x' }),
    'and a field that it does not know is not let through',
  );
});

t.test(
  "a bundle or a source that failed is the run's own error; a destination that did not open is told as such",
  async (t) => {
    const at = new Date();
    const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: '.' };
    const { run } = runResult('failed');
    const error = errorRecord(new WaybillError('storage_denied', 'cannot open /srv/www'));
    const pipeline = run.pipelines[0]!;
    const destination = { ...pipeline.destinations[0]!, actions: [], error };
    const unopened = finishedRun(
      acceptedRun(job, at),
      { ...run, pipelines: [{ ...pipeline, destinations: [destination] }] },
      at,
    );
    t.match(unopened, { status: 'failed', error: null });
    t.match(unopened.destinations, [
      {
        action: 'error',
        destination_path: null,
        error: { code: 'storage_denied', message: 'cannot open <path>' },
      },
    ]);
    const invalid = { ...pipeline, status: 'ok' as const, invalidBundles: [{ bundle: '.', error }] };
    t.match(finishedRun(acceptedRun(job, at), { ...run, pipelines: [invalid] }, at), {
      status: 'failed',
      error: { code: 'storage_denied' },
    });
  },
);
