import t from 'tap';
import { makeOutput, type Output } from '../../../src/cli/output/output.ts';
import { printRun, retryNotes, runLines } from '../../../src/cli/output/run-record-text.ts';
import type { RunRecord } from '../../../src/client/client.ts';
import { errorRecord, WaybillError } from '../../../src/core/lib/errors.ts';
import { retryOrFail } from '../../../src/workers/queue/run-retry.ts';
import { acceptedRun, failedRun, startedRun } from '../../../src/workers/queue/run-transitions.ts';

const at = new Date('2026-11-20T02:00:00.000Z');
const job = { runId: 'maps.1', pipelineId: 'maps', staged: '/staging/x', bundlePath: 'session-1' };
const error = errorRecord(new WaybillError('storage_transient', 'sftp://web: the connection was refused'));
const pauses = { baseMs: 60_000, capMs: 60_000, random: () => 0.5 };
const failed = failedRun(startedRun(acceptedRun(job, at), at), error, at);
const settings = { forMs: 600_000, whileRetrying: 'pass', hasSingleTarget: false, pauses } as const;
// The record as the client parses it.
const waiting = JSON.parse(JSON.stringify(retryOrFail(failed, at, settings))) as RunRecord;

t.test(
  'runs show and runs list print the next attempt of a waiting run, its time and the cause',
  async (t) => {
    const lines: string[] = [];
    const plain = makeOutput({ json: false, color: false });
    const output: Output = {
      ...plain,
      data: (line) => void lines.push(line),
      note: (line) => void lines.push(line),
    };
    printRun(waiting, output);
    t.same(lines, [
      'queued  maps.1',
      '  try 2 at 2026-11-20T02:00:30.000Z, tries end at 2026-11-20T02:10:00.000Z',
      '  storage_transient  sftp://web: the connection was refused',
    ]);
    t.match(
      runLines([waiting], output.style)[0],
      'try 2 at 2026-11-20T02:00:30.000Z: storage_transient: sftp',
    );
    lines.length = 0;
    const note = retryNotes(output);
    note(waiting);
    note(waiting);
    t.same(lines, [
      'storage_transient: sftp://web: the connection was refused; try 2 at 2026-11-20T02:00:30.000Z',
    ]);
  },
);
