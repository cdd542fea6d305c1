import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import t from 'tap';
import { ensureInstalled } from '../../services/debian.ts';
import { type Case, sampleOf, walkCases } from '../../support/sampling.ts';
import { allRemains, lossWithout, type Protocol, syncName, unrecorded, wrongAfter } from './losses.ts';
import { publications } from './publications.ts';
import type { Recording } from './record.ts';
import { trails } from './trails.ts';

/**
 * Power losses. The built program runs once, and strace records its changes. The power then goes at each
 * step, and what was not synced is partly gone; `disk.ts` has the rules. After the recovery, no promise that
 * the program made before the loss is broken.
 */

await ensureInstalled('strace');
const scratch = mkdtempSync(path.join(tmpdir(), 'waybill-power-'));
t.teardown(() => rmSync(scratch, { recursive: true, force: true }));

const recorded: { protocol: Protocol; recording: Recording }[] = [];
const cases: Case[] = [];
for (const protocol of sampleOf([...publications(t), trails(t)], 3, 'protocols that lose the power'))
  t.test(`${protocol.name} is recorded completely`, async (t) => {
    const recording = await protocol.record(path.join(scratch, 'trace'));
    t.same(unrecorded(recording), []);
    recorded.push({ protocol, recording });
    const { steps } = recording;
    for (let cut = 0; cut <= steps.length; cut += 1)
      for (const remains of allRemains)
        cases.push({
          name: `${protocol.name}, after step ${cut} of ${steps.length}, ${remains}`,
          stratum: `${protocol.name}: ${remains}`,
          run: () => wrongAfter(protocol, recording, { cut, remains }),
        });
  });

t.test('no promise is broken by a power loss', async (t) => {
  await walkCases(t, sampleOf(cases, 40, 'power losses'), { what: 'power losses' });
});

t.test('a promise is broken without a sync', async (t) => {
  for (const { protocol, recording } of recorded) {
    const names = new Set(recording.steps.flatMap((step) => syncName(step) ?? []));
    const needed = [...names].filter((name) => !protocol.spare.some(([form]) => form.test(name)));
    t.not(needed.length, 0, `${protocol.name} has syncs`);
    for (const name of sampleOf(needed, 1, `sync of ${protocol.name}`)) {
      const found = await lossWithout(protocol, recording, (step) => syncName(step) === name);
      t.ok(found !== null, `${protocol.name} without ${name}`);
      if (found !== null) t.comment(`${protocol.name} without ${name}: ${found.slice(0, 200)}`);
    }
  }
});
