import t from 'tap';
import { WaybillError } from '../../../../src/core/lib/errors.ts';
import { probeConditions, type ProbeObject } from '../../../../src/core/storage/s3/conditions.ts';
import { S3AnswerError } from '../../../../src/core/storage/s3/s3-errors.ts';
import type { Condition } from '../../../../src/core/storage/s3/sdk.ts';

type Holds = (condition: Condition, version: number) => boolean;

function server(holds: Holds): { object: ProbeObject; removed: () => number } {
  let version = 0;
  let removals = 0;
  return {
    object: {
      async write(_text, condition) {
        if (condition !== undefined && !holds(condition, version))
          throw new WaybillError('storage_conflict', 'refused');
        version += 1;
        return String(version);
      },
      remove: async () => void (removals += 1),
    },
    removed: () => removals,
  };
}

const honest =
  (form: string): Holds =>
  (condition, version) =>
    'absent' in condition ? version === 0 : condition.form === form && condition.version === String(version);

t.test('sends both conditions in the form that the server supports', async (t) => {
  for (const form of ['quoted', 'unquoted']) {
    const { object, removed } = server(honest(form));
    t.same(await probeConditions(object), { honored: 'full', versionForm: form });
    t.equal(removed(), 1, 'the probe object is removed');
  }
});

t.test('a server that ignores conditions supports neither', async (t) => {
  t.same(await probeConditions(server(() => true).object), { honored: 'none', versionForm: null });
});

t.test('a server that ignores If-Match supports only creation', async (t) => {
  const { object } = server((condition, version) => !('absent' in condition) || version === 0);
  t.same(await probeConditions(object), { honored: 'create', versionForm: null });
});

t.test('501 means that a condition is unsupported; any other failure ends the probe', async (t) => {
  let removed = 0;
  const failing = (failure: unknown): ProbeObject => ({
    write: async () => {
      throw failure;
    },
    remove: async () => void (removed += 1),
  });
  const answer = { name: 'NotImplemented', message: '', status: 501, headers: {} };
  const unsupported = new WaybillError('storage_permanent', 'no', { cause: new S3AnswerError(answer) });
  t.same(await probeConditions(failing(unsupported)), { honored: 'none', versionForm: null });
  const denied = new WaybillError('storage_denied', 'no');
  await t.rejects(probeConditions(failing(denied)), denied);
  t.equal(removed, 2);
});
