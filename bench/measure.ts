import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

export interface Sample {
  /** The time from start to exit, in seconds. */
  seconds: number;
  /**
   * Processor time, including the time spent in the kernel. On a busy machine, this varies less than
   * `seconds`.
   */
  cpuSeconds: number;
  /** Peak memory usage in MiB. */
  peakMiB: number;
}

const rusage = `
import json, os, resource, subprocess, sys, time
started = time.monotonic()
code = subprocess.call(sys.argv[2:], stdout=subprocess.DEVNULL)
seconds = time.monotonic() - started
used = resource.getrusage(resource.RUSAGE_CHILDREN)
peak = used.ru_maxrss / 1024
json.dump({'seconds': seconds, 'cpuSeconds': used.ru_utime + used.ru_stime, 'peakMiB': peak, 'code': code}, open(sys.argv[1], 'w'))
`;

/**
 * Do not load additional CA certificates. If the machine has any, Node.js reads them at every start, which
 * takes 80 ms.
 */
const environment = (): NodeJS.ProcessEnv => ({ ...process.env, NODE_EXTRA_CA_CERTS: undefined });

/**
 * Runs a command, and returns how much time and memory it used according to the operating system. Throws if
 * it fails.
 */
export function measure(command: readonly string[]): Sample {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-bench-'));
  try {
    const report = path.join(directory, 'report.json');
    const result = spawnSync('python3', ['-c', rusage, report, ...command], {
      stdio: ['ignore', 'inherit', 'pipe'],
      encoding: 'utf8',
      env: environment(),
    });
    if (result.error) throw result.error;
    return sampleIn(report, command, result.stderr);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Like `measure`, but asynchronous. For commands whose connections go through this process. */
export async function measureBeside(
  command: readonly string[],
  env: Record<string, string> = {},
): Promise<Sample> {
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-bench-'));
  try {
    const report = path.join(directory, 'report.json');
    const child = spawn('python3', ['-c', rusage, report, ...command], {
      stdio: ['ignore', 'inherit', 'pipe'],
      env: { ...environment(), ...env },
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()));
    await once(child, 'close');
    return sampleIn(report, command, said);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

function sampleIn(report: string, command: readonly string[], said: string): Sample {
  const { code, ...sample } = JSON.parse(readFileSync(report, 'utf8')) as Sample & { code: number };
  if (code !== 0) throw new Error(`${command.join(' ')} ended with ${code}\n${said}`);
  return sample;
}

export interface Contender {
  name: string;
  command: readonly string[];
  /** Prepares a measurement. Not included in the result. */
  before?: () => void;
  /** Set if this takes minutes. It is then only measured in the first round, and without a warm-up. */
  isSlow?: boolean;
}

export interface Summary {
  name: string;
  seconds: number;
  cpuSeconds: number;
  minimum: number;
  maximum: number;
  peakMiB: number;
}

/** WAYBILL_BENCH_ROUNDS can be set to make this faster. */
const usualRounds = Number(process.env['WAYBILL_BENCH_ROUNDS'] ?? 5);

/**
 * Measures programs in turns, because other load on the machine should affect all of them equally. Each has a
 * warm-up, followed by this number of rounds.
 */
export function compare(contenders: readonly Contender[], rounds = usualRounds): Summary[] {
  const samples = contenders.map((): Sample[] => []);
  for (let round = 0; round <= rounds; round += 1)
    contenders.forEach(({ command, before, isSlow }, index) => {
      if (isSlow === true && round !== 1) return;
      before?.();
      const sample = measure(command);
      if (round > 0) samples[index]!.push(sample);
    });
  return contenders.map(({ name }, index) => summaryOf(name, samples[index]!));
}

/** Returns the median times and the highest memory usage. */
export function summaryOf(name: string, samples: readonly Sample[]): Summary {
  const seconds = samples.map((sample) => sample.seconds).sort((a, b) => a - b);
  return {
    name,
    seconds: median(seconds),
    cpuSeconds: median(samples.map((sample) => sample.cpuSeconds).sort((a, b) => a - b)),
    minimum: seconds[0]!,
    maximum: seconds.at(-1)!,
    peakMiB: Math.max(...samples.map(({ peakMiB }) => peakMiB)),
  };
}

function median(sorted: readonly number[]): number {
  return sorted[Math.floor(sorted.length / 2)]!;
}

export function print(title: string, summaries: readonly Summary[]): void {
  console.log(`\n${title}`);
  for (const { name, seconds, cpuSeconds, minimum, maximum, peakMiB } of summaries)
    console.log(
      `  ${name.padEnd(28)} ${seconds.toFixed(3).padStart(8)} s   (${minimum.toFixed(3)} to ${maximum.toFixed(3)})   ${cpuSeconds.toFixed(3).padStart(7)} s CPU   ${peakMiB.toFixed(0).padStart(5)} MiB`,
    );
}

const goals: { text: string; reached: boolean }[] = [];

/** Prints whether a goal was reached, and remembers it. */
export function goal(text: string, reached: boolean): boolean {
  goals.push({ text, reached });
  printGoal(text, reached);
  return reached;
}

/** Prints all goals again. */
export function printGoals(): void {
  const { length } = goals.filter(({ reached }) => reached);
  console.log(`\n${length} of ${goals.length} goals reached`);
  for (const { text, reached } of goals) printGoal(text, reached);
}

function printGoal(text: string, reached: boolean): void {
  console.log(`  ${reached ? 'reached    ' : 'NOT reached'}  ${text}`);
}
