import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { errorRecord, type Finding, finding, WaybillError } from '../../../src/core/lib/errors.ts';
import { withDestinationFailure } from '../../../src/core/publish/results/action-result.ts';
import type { Progress, RunResult } from '../../../src/core/publish/results/result.ts';
import { optionalRecord } from '../../../src/workers/bullmq/run-reads.ts';
import { rerunJob } from '../../../src/workers/queue/bundle-retention.ts';
import { noFailedDeliveries, withNote } from '../../../src/workers/queue/run-record.ts';
import { retryOrFail, supersededRun } from '../../../src/workers/queue/run-retry.ts';
import {
  acceptedRun,
  failedRun,
  finishedRun,
  progressedRun,
  queuedRun,
  startedRun,
} from '../../../src/workers/queue/run-transitions.ts';
import { runResult } from '../../contract/queue.ts';

const schema = JSON.parse(readFileSync('schemas/run-record.schema.json', 'utf8')) as object;
const ajv = new Ajv2020({ allErrors: true, allowUnionTypes: true });
addFormats.default(ajv);
const validate = ajv.compile(schema);

t.test('every record of a run matches the schema at every stage', async (t) => {
  const at = new Date('2026-11-20T02:04:34.120Z');
  const job = {
    runId: 'maps.20261120T020434Z.k3f9q2ab7x',
    pipelineId: 'maps',
    staged: '/staging/x',
    bundlePath: '.',
  };
  const queued = queuedRun(acceptedRun(job, at), at);
  const running = progressedRun(
    startedRun(queued, at),
    { type: 'bytes', destinationId: 'web', count: 3 },
    at,
  );
  const broken = new WaybillError('worker_failed', 'the worker thread crashed: cannot open /srv/www', {
    hint: 'again',
  });
  const waiting = retryOrFail(failedRun(running, errorRecord(broken), at), at, {
    ...{ forMs: 60_000, whileRetrying: 'pass', hasSingleTarget: false },
  });
  for (const record of [
    acceptedRun(job, at),
    acceptedRun({ ...job, rerunOf: job.runId }, at),
    queued,
    running,
    finishedRun(running, runResult('ok').run, at),
    finishedRun(running, runResult('failed').run, at),
    failedRun(running, errorRecord(broken), at),
    waiting,
    startedRun(waiting, at),
    supersededRun(waiting, 'maps.20261120T020534Z.k3f9q2ab7y', at),
  ]) {
    t.ok(validate(record), `${record.status}: ${ajv.errorsText(validate.errors)}`);
  }
  t.notOk(validate({ ...running, staged: '/staging/x' }), 'an unknown field is removed');
});

t.test(
  'a record from Redis is rejected if a field has another type, and an earlier one is accepted',
  async (t) => {
    const at = new Date('2026-11-20T02:04:34.120Z');
    const job = {
      runId: 'maps.20261120T020434Z.k3f9q2ab7x',
      pipelineId: 'maps',
      staged: '',
      bundlePath: '.',
    };
    const { run } = runResult('ok');
    const note = {
      notifierId: 'n',
      eventId: 'msg_1',
      eventType: 'ping',
      status: 'retrying',
      tries: 1,
    } as const;
    const record = {
      ...finishedRun(acceptedRun(job, at), run, at),
      ...withNote(noFailedDeliveries, { ...note, isMore: false, reason: 'away', nextTryAt: null, at }),
      warnings: [{ destination_id: null, code: 'odd', message: 'odd' }],
      error: errorRecord(new WaybillError('worker_failed', 'broken')),
    };
    const read = (value: unknown): unknown => optionalRecord(JSON.stringify(value));
    t.same(read(record), record);
    const places = placesIn(record).filter(([first, second]) => first !== 'summary' || second !== undefined);
    t.ok(places.length > 40, `${places.length} places`);
    const accepted: string[] = [];
    for (const place of places)
      for (const value of [null, 5, 'constructor', [null], {}, true]) {
        const changed = replaced(record, place, value);
        if (validate(changed)) continue;
        const isOtherType = (validate.errors ?? []).some(({ keyword }) => ['type', 'enum'].includes(keyword));
        if (isOtherType && read(changed) !== null)
          accepted.push(`${place.join('.')} = ${JSON.stringify(value)}`);
      }
    t.same(accepted, []);
    const added = ['triggered_by', 'trace_id', 'rerun_of'];
    const earlier = Object.fromEntries(Object.entries(record).filter(([name]) => !added.includes(name)));
    t.match(read(earlier), { run_id: job.runId, trace_id: null, triggered_by: { kind: 'request' } });
  },
);

type Place = readonly (string | number)[];

/** The paths of all values in a document. */
function placesIn(value: unknown, at: Place = []): Place[] {
  if (typeof value !== 'object' || value === null) return [at];
  const inner = Object.entries(value).flatMap(([name, one]) => placesIn(one, [...at, name]));
  return at.length === 0 ? inner : [at, ...inner];
}

function replaced(document: object, place: Place, value: unknown): object {
  const copy = structuredClone(document);
  let inside: Record<string | number, unknown> = copy as Record<string, unknown>;
  for (const name of place.slice(0, -1)) inside = inside[name] as Record<string, unknown>;
  inside[place.at(-1) ?? ''] = value;
  return copy;
}

t.test(
  "reports a failed bundle or source as the run's error, and an unopened destination as its own",
  async (t) => {
    const at = new Date();
    const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: '.' };
    const { run } = runResult('failed');
    const error = errorRecord(new WaybillError('storage_denied', 'cannot open /srv/www'));
    const pipeline = run.pipelines[0]!;
    const [succeeded] = pipeline.destinations;
    const destination = withDestinationFailure(
      { ...succeeded!, actions: [] },
      { mapping: 'preserve_relative' },
      error,
    );
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

t.test('progress is counted for each destination, and a finished destination keeps its time', async (t) => {
  const at = new Date('2026-11-20T02:04:34.120Z');
  const later = new Date('2026-11-20T02:04:36.120Z');
  const job = {
    ...{ runId: 'maps.20261120T020434Z.k3f9q2ab7x', pipelineId: 'maps' },
    ...{ staged: '/staging/x', bundlePath: 'session-1' },
  };
  const { run } = runResult('ok');
  const { destinationId, actions } = run.pipelines[0]!.destinations[0]!;
  const result = actions[0]!;
  if (result.bundle === null) throw new TypeError('not the result of a bundle');
  const planned = { destinationPath: '.', action: 'publish_new', outputs: 2, bytes: 30 } as const;
  const messages: Progress[] = [
    { type: 'planned', destinationId, ...planned },
    { type: 'planned', destinationId: 'other', ...planned },
    { type: 'bytes', destinationId, count: 10 },
    { type: 'output', destinationId, path: 'a' },
  ];
  const running = messages.reduce(
    (record, message) => progressedRun(record, message, at),
    startedRun(queuedRun(acceptedRun({ ...job, tokenId: 'ci' }, at), at), at),
  );
  t.match(running.progress, { stage: 'writing', outputs_done: 1, outputs_total: 4, bytes_total: 60 });
  t.match(running.progress?.destinations, [
    { destination_id: destinationId, outputs_done: 1, outputs_total: 2, bytes_done: 10, bytes_total: 30 },
    { destination_id: 'other', outputs_done: 0, outputs_total: 2, bytes_done: 0, bytes_total: 30 },
  ]);
  const done = progressedRun(running, { type: 'done', destinationId, result }, later);
  t.ok(validate(done), ajv.errorsText(validate.errors));
  t.match(finishedRun(done, run, later).destinations, [{ finished_at: later.toISOString() }]);
  t.match(finishedRun(running, run, later).destinations, [{ finished_at: null }]);
});

t.test(
  'a record names the bundle and the token, and a rerun names the token that requested it',
  async (t) => {
    const at = new Date();
    const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/s', bundlePath: 'session-1', tokenId: 'ci' };
    t.match(acceptedRun(job, at), {
      bundle_path: 'session-1',
      triggered_by: { kind: 'upload', token_id: 'ci' },
    });
    const again = rerunJob(job, { runId: 'maps.2', origin: { tokenId: 'operator' } });
    t.match(acceptedRun(again, at), { triggered_by: { token_id: 'operator' }, rerun_of: 'maps.1' });
    t.match(acceptedRun(rerunJob(job, { runId: 'maps.2', origin: {} }), at).triggered_by, { token_id: null });
  },
);

t.test('a record has the warnings of its destinations, without local paths', async (t) => {
  const at = new Date();
  const job = {
    runId: 'maps.20261120T020434Z.k3f9q2ab7x',
    pipelineId: 'maps',
    staged: '/s',
    bundlePath: '.',
  };
  const { run } = runResult('ok');
  const [pipeline] = run.pipelines;
  const replaced = finding('warning', 'destination_root_replaced', 'target=.: was replaced (/srv/www)');
  const unlisted = finding('warning', 'unlisted_files', '1 file is not in the manifest', { file: 'a.txt' });
  const withWarnings = (count: number): RunResult => ({
    ...run,
    pipelines: [
      {
        ...pipeline!,
        warnings: Array<Finding>(count).fill(unlisted),
        destinations: pipeline!.destinations.map((one) => ({ ...one, warnings: [replaced] })),
      },
    ],
  });
  const record = finishedRun(acceptedRun(job, at), withWarnings(1), at);
  t.ok(validate(record), ajv.errorsText(validate.errors));
  t.same(record.warnings, [
    { destination_id: null, code: 'unlisted_files', message: 'a.txt: 1 file is not in the manifest' },
    {
      destination_id: 'web',
      code: 'destination_root_replaced',
      message: 'target=.: was replaced (<path>)',
    },
  ]);
  t.same(acceptedRun(job, at).warnings, []);
  t.equal(finishedRun(acceptedRun(job, at), withWarnings(99), at).warnings.length, 100);
  const many = finishedRun(acceptedRun(job, at), withWarnings(10_000), at);
  t.ok(validate(many), ajv.errorsText(validate.errors));
  t.equal(many.warnings.length, 101);
  t.same(many.warnings[100], {
    destination_id: null,
    code: 'warnings_omitted',
    message: '9901 more warnings',
  });
});
