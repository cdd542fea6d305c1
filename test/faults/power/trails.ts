import { mkdtempSync, rmSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import type { Test } from 'tap';
import { newestFirst } from '../../../src/core/audit/read-trail.ts';
import { openTrail } from '../../../src/core/audit/trail.ts';
import { verifyTrail } from '../../../src/core/audit/verify-trail.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { memoryDirectory } from '../../support/memory-directory.ts';
import { allRemains, type Protocol } from './losses.ts';
import { recordProgram } from './record.ts';

/*
 * The audit trail. Each act that was reported as recorded has its record on disk. The trail can be
 * continued, and its chain then verifies.
 */

const writer = path.resolve('test/core/audit/writer-process.ts');
const acts = 90;

export function trails(t: Test): Protocol {
  return {
    name: 'an audit trail of several files',
    record: async (trace) => {
      const root = mkdtempSync(path.join(memoryDirectory(), 'waybill-trail-'));
      t.teardown(() => rmSync(root, { recursive: true, force: true }));
      const command = [process.execPath, '--import=tsx', writer, path.join(root, 'state/audit')];
      return recordProgram(root, trace, [...command, 'act', String(acts), '6', '0']);
    },
    remains: allRemains,
    promise: /^act-/,
    needs: /^(?!.*reserve)/, // A lost reserve is created again.
    wrong: async (root, promises) => {
      const directory = path.join(root, 'state/audit');
      const settings = { directory, maxBytes: 20_000, maxAgeMs: 3_600_000, onFull: 'refuse' } as const;
      const trail = await openTrail(settings, { clock: systemClock, log: silentLog });
      await trail.append({ act: 'reload', result: 'done', actor: { type: 'daemon', id: null } });
      await trail.close();
      const recorded = new Map<string, number>();
      for await (const { request_id: id } of newestFirst(directory, null))
        if (id !== null) recorded.set(id, (recorded.get(id) ?? 0) + 1);
      const { problems } = await verifyTrail(directory);
      // The compiler of the writer sends bytes to its own process.
      const acked = promises
        .filter((text) => text.startsWith('act-'))
        .flatMap((text) => text.trim().split('\n'));
      return [
        ...acked
          .filter((id) => recorded.get(id) !== 1)
          .map((id) => `${id} has ${recorded.get(id) ?? 0} records`),
        ...problems.map(({ fault, message }) => `${fault}: ${message}`),
      ];
    },
  };
}
