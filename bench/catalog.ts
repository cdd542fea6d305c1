import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { goal, measure, type Sample } from './measure.ts';

/**
 * Measures how much time and memory publishing takes as the catalog grows, from 5,000 to 500,000 outputs:
 * publishing, planning, publishing again with no change or a single one, and verifying. Half of the outputs
 * are in the published bundle, which reaches the maximum size of a bundle with the last number. The others
 * belong to a different pipeline. Files have only eight bytes and are in memory if possible, so that most of
 * the cost is due to the catalog.
 */
export async function catalog(): Promise<boolean> {
  const counts = (process.env['WAYBILL_BENCH_OUTPUTS'] ?? '5000,50000,200000,500000').split(',').map(Number);
  const found = counts.map((count) => ({ count, samples: stepsOf(count) }));
  const reached: boolean[] = [];
  for (const step of steps) {
    console.log(`\n${step}`);
    for (const { count, samples } of found) {
      const { seconds, cpuSeconds, peakMiB } = samples[step];
      const each = ((cpuSeconds - samples.start.cpuSeconds) / count) * 1e6;
      console.log(
        `  ${count.toLocaleString('en').padStart(9)} outputs ${seconds.toFixed(2).padStart(8)} s ${cpuSeconds.toFixed(2).padStart(8)} s CPU   ${each.toFixed(1).padStart(7)} µs each   ${peakMiB.toFixed(0).padStart(6)} MiB`,
      );
    }
    reached.push(judge(step, found));
  }
  return reached.every(Boolean);
}

const steps = ['start', 'publish', 'plan', 'skip', 'change', 'verify'] as const;
type Step = (typeof steps)[number];

/** The processor time per output may increase by this factor, to allow for noise. */
const maxGrowth = 1.5;
const maxMiB = 600;

function judge(step: Step, found: readonly { count: number; samples: Record<Step, Sample> }[]): boolean {
  const last = found.at(-1)!;
  const before = found.at(-2);
  const { peakMiB } = last.samples[step];
  const isSmall = goal(`peak memory ${peakMiB.toFixed(0)} MiB (goal under ${maxMiB})`, peakMiB < maxMiB);
  if (before === undefined || step === 'start') return isSmall;
  const each = ({ count, samples }: typeof last): number =>
    (samples[step].cpuSeconds - samples.start.cpuSeconds) / count;
  const growth = each(last) / each(before);
  const text = `${growth.toFixed(2)} × the time per output of ${before.count.toLocaleString('en')} (goal under ${maxGrowth} ×)`;
  return goal(text, growth < maxGrowth) && isSmall;
}

function stepsOf(count: number): Record<Step, Sample> {
  const memory = process.env['WAYBILL_BENCH_DIRECTORY'] ?? (existsSync('/dev/shm') ? '/dev/shm' : tmpdir());
  const root = mkdtempSync(path.join(memory, 'waybill-bench-catalog-'));
  try {
    const run = (step: string): Sample =>
      measure([process.execPath, '--import=tsx', 'bench/catalog-step.ts', step, root, `${count}`]);
    run('prepare');
    const samples = Object.fromEntries(steps.map((step) => [step, run(step)])) as Record<Step, Sample>;
    const bytes = readFileSync(path.join(root, '.publisher.json')).byteLength;
    console.log(`${count.toLocaleString('en')} outputs: a catalog of ${(bytes / 2 ** 20).toFixed(1)} MiB`);
    return samples;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}
