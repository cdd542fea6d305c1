import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import t from 'tap';
import { parseLine } from '../../../src/core/audit/record.ts';
import { verifyTrail } from '../../../src/core/audit/verify-trail.ts';
import { generator, howMany } from '../../support/sampling.ts';

/*
 * Several processes append to one trail at the same time. Some are killed at a random moment or in the middle
 * of a write. `npm run test:exhaustive -- core/audit/killed-writers` has 10,000 acts.
 */

const program = path.join(import.meta.dirname, 'writer-process.ts');
const random = generator('killed writers');
const pick = (n: number): number => Math.floor(random() * n);

interface Writer {
  acked: string[];
  ended: Promise<unknown>;
}

function startWriter(directory: string, prefix: string, acts: number, killAt: number): Writer {
  const args = [
    '--import=tsx',
    program,
    directory,
    prefix,
    String(acts),
    String(1 + pick(4)),
    String(killAt),
  ];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const acked: string[] = [];
  let text = '';
  const killAfter = killAt === 0 && pick(3) > 0 ? pick(acts) : Infinity;
  child.stdout.on('data', (chunk: Buffer) => {
    text += chunk.toString();
    const whole = text.split('\n');
    text = whole.pop() ?? '';
    acked.push(...whole);
    if (acked.length >= killAfter) child.kill('SIGKILL');
  });
  return { acked, ended: once(child, 'close') };
}

t.test('each act has exactly one record, whichever process is killed', async (t) => {
  const directory = t.testdir();
  const acts = howMany(400, 50);
  const enough = howMany(10_000, 100);
  const acked: string[] = [];
  let interrupted = 0;
  for (let round = 0; acked.length < enough; round += 1) {
    const writers = [0, 1, 2].map((n) =>
      startWriter(directory, `w${round}-${n}`, acts, n === 0 ? 2 + pick(Math.ceil(acts / 6)) : 0),
    );
    await Promise.all(writers.map(({ ended }) => ended));
    acked.push(...writers.flatMap((writer) => writer.acked));
    interrupted += 1;
    if (round % 5 === 4) t.comment(`${acked.length} of ${enough} acts`);
  }
  const last = startWriter(directory, 'last', 1, 0);
  await last.ended;
  acked.push(...last.acked);
  const recorded = new Map<string, number>();
  for (const name of readdirSync(directory).filter((one) => one.endsWith('.jsonl')))
    for (const line of readFileSync(path.join(directory, name), 'utf8').split('\n')) {
      const id = parseLine(line)?.request_id;
      if (id != null) recorded.set(id, (recorded.get(id) ?? 0) + 1);
    }
  t.comment(`${acked.length} acts with a response, ${recorded.size} records, ${3 * interrupted} writers`);
  t.same(
    acked.filter((id) => recorded.get(id) !== 1),
    [],
    'each act with a response',
  );
  t.same(
    [...recorded].filter(([, count]) => count > 1),
    [],
    'no act has two records',
  );
  const report = await verifyTrail(directory);
  t.same(report.problems, []);
  t.equal(report.interrupted.length, interrupted, 'each interrupted write is explained');
  t.ok(report.files > 1, 'over several files');

  const files = readdirSync(directory).filter((one) => one.endsWith('.jsonl'));
  for (const change of ['edited', 'removed']) {
    const file = path.join(directory, files[pick(files.length)] ?? '');
    const whole = readFileSync(file, 'utf8');
    const lines = whole.split('\n').filter((line) => parseLine(line) !== null);
    const line = lines[pick(lines.length)] ?? '';
    writeFileSync(
      file,
      whole.replace(
        `${line}\n`,
        change === 'removed' ? '' : `${line.replace('"result":"', '"result":"x')}\n`,
      ),
    );
    t.not((await verifyTrail(directory)).problems.length, 0, `detects a record that was ${change}`);
    writeFileSync(file, whole);
  }
  t.same((await verifyTrail(directory)).problems, []);
});
