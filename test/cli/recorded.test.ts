import t from 'tap';
import { recordedReload, recordedTriggers } from '../../src/cli/daemon/recorded.ts';
import { entryOfOccurrence, programActor } from '../../src/core/audit/occurrence-acts.ts';
import type { ActEntry } from '../../src/core/audit/record.ts';
import type { Trail } from '../../src/core/audit/trail.ts';
import { errorRecord, WaybillError } from '../../src/core/lib/errors.ts';
import { runFailure } from '../../src/core/publish/results/occurrences.ts';
import type { Decision, TriggeredJob, Triggers } from '../../src/workers/queue/trigger.ts';

function trailOf(entries: ActEntry[], { isFull = false } = {}): Trail {
  return {
    admit: async () => {
      if (isFull) throw new WaybillError('audit_unavailable', 'full by the will of the test');
    },
    prove: async () => undefined,
    append: async (entry) => void entries.push(entry),
    close: async () => undefined,
  };
}

const job: TriggeredJob = {
  ...{ runId: 'library.1', pipelineId: 'library', staged: null },
  trigger: { kind: 'schedule', schedule: '@daily', tick: '2026-11-20T00:00:00Z' },
};

function triggersThat(outcome: 'started' | 'known', decided: string[] = []): Triggers {
  return {
    last: async () => null,
    decide: async ({ runId }) => {
      decided.push(runId);
      return { outcome } as Decision;
    },
  };
}

t.test('a run that a schedule starts is recorded, other decisions are not', async (t) => {
  const entries: ActEntry[] = [];
  await recordedTriggers(triggersThat('known'), trailOf(entries)).decide(job);
  t.same(entries, []);
  await recordedTriggers(triggersThat('started'), trailOf(entries)).decide(job);
  t.match(entries, [{ act: 'run.start', runId: 'library.1', actor: { type: 'schedule', id: 'library' } }]);
});

t.test('a schedule starts no run that cannot be recorded', async (t) => {
  const decided: string[] = [];
  const triggers = recordedTriggers(triggersThat('started', decided), trailOf([], { isFull: true }));
  await t.rejects(triggers.decide(job), { code: 'audit_unavailable' });
  t.same(decided, []);
});

t.test('a reload by a signal is recorded, and so is its refusal', async (t) => {
  const entries: ActEntry[] = [];
  await recordedReload(async () => undefined, trailOf(entries))();
  const refuse = async (): Promise<never> => {
    throw new WaybillError('reload_refused', 'invalid');
  };
  await t.rejects(recordedReload(refuse, trailOf(entries))(), { code: 'reload_refused' });
  t.match(entries, [
    { act: 'reload', result: 'done', actor: { type: 'daemon', signal: 'SIGHUP' } },
    { act: 'reload', result: 'refused', code: 'reload_refused' },
  ]);
});

t.test('a failed publication is recorded with its code', (t) => {
  const failure = errorRecord(new WaybillError('destination_busy', 'busy'));
  t.match(entryOfOccurrence(runFailure('maps', 'maps.1', failure), programActor), {
    ...{ act: 'publish', result: 'failed', code: 'destination_busy', pipelineId: 'maps', runId: 'maps.1' },
  });
  t.equal(
    entryOfOccurrence({ type: 'notifier.test', data: { notifier_id: 'n', message: 'm' } }, programActor),
    null,
  );
  t.end();
});
