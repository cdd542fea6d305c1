import { open } from 'node:fs/promises';
import process from 'node:process';
import { actResults, acts } from '../../../src/core/audit/record.ts';
import { openTrail } from '../../../src/core/audit/trail.ts';
import { systemClock } from '../../../src/core/lib/clock.ts';
import { silentLog } from '../../../src/core/lib/log.ts';
import { generator } from '../../support/sampling.ts';

/*
 * A process that appends random acts to a trail, and prints the id of each act whose record is on disk. The
 * arguments are the directory, a prefix of the ids, the number of acts, the number of concurrent acts, and
 * the number of the write during which the process kills itself (0: never).
 */
const [directory = '', prefix = '', count = '0', atATime = '1', killAt = '0'] = process.argv.slice(2);

let writes = 0;
async function killDuringWrite(): Promise<void> {
  const handle = await open(import.meta.filename);
  const methods = Object.getPrototypeOf(handle) as { appendFile: (bytes: Buffer) => Promise<void> };
  await handle.close();
  const { appendFile } = methods;
  methods.appendFile = async function (this: object, bytes: Buffer): Promise<void> {
    writes += 1;
    if (writes !== Number(killAt)) return appendFile.call(this, bytes);
    await appendFile.call(this, bytes.subarray(0, Math.floor(bytes.length * 0.7)));
    process.kill(process.pid, 'SIGKILL');
    await new Promise(() => undefined);
  };
}

await killDuringWrite();
const settings = { directory, maxBytes: 20_000, maxAgeMs: 3_600_000, onFull: 'refuse' } as const;
const trail = await openTrail(settings, { clock: systemClock, log: silentLog });
let next = 0;
const actor = { type: 'os_user', id: prefix };
const random = generator(prefix);
function pick<T>(choices: readonly T[]): T {
  return choices[Math.floor(random() * choices.length)] as T;
}
async function act(): Promise<void> {
  while (next < Number(count)) {
    next += 1;
    const requestId = `${prefix}-${next}`;
    await trail.requireWritable();
    const detail = { path: 'a/b '.repeat(Math.floor(random() * 20)) };
    await trail.append({ act: pick(acts), result: pick(actResults), actor, requestId, detail });
    process.stdout.write(`${requestId}\n`);
  }
}
await Promise.all(Array.from({ length: Number(atATime) }, act));
await trail.close();
