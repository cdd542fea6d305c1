import { readFileSync } from 'node:fs';
import type { RedisService } from '../../test/services/redis.ts';

/** The processor time of a process in milliseconds, divided into its main thread and all others. */
export interface ThreadTimes {
  mainMs: number;
  otherMs: number;
}

/**
 * Returns how much processor time a process has used so far. This includes threads that have ended, but for
 * those it is only precise to 10 ms.
 */
export function threadTimes(pid: number): ThreadTimes {
  // The first number in `/proc/PID/task/TID/schedstat` is the time on a processor in nanoseconds.
  const mainMs = Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const allMs = (Number(fields[11]) + Number(fields[12])) * 10;
  return { mainMs, otherMs: Math.max(0, allMs - mainMs) };
}

/** The processor time and traffic so far of a group of processes and of Redis. */
export interface Usage extends ThreadTimes {
  redisMs: number;
  redisCommands: number;
  /** Bytes that Redis has received and sent. */
  redisBytes: number;
}

/** Measures the usage of these processes and Redis. */
export async function usageOf(pids: readonly number[], redis: RedisService): Promise<Usage> {
  const times = pids.map(threadTimes);
  const redisUsage = await redisUsageOf(redis);
  return {
    mainMs: sum(times.map(({ mainMs }) => mainMs)),
    otherMs: sum(times.map(({ otherMs }) => otherMs)),
    redisMs: redisUsage.ms,
    redisCommands: redisUsage.commands,
    redisBytes: redisUsage.bytes,
  };
}

/** Calculates how much was used between two measurements for each of `count` items. */
export function usedFor(before: Usage, after: Usage, count: number): Usage {
  return usageBy((key) => Math.max(0, after[key] - before[key]) / count);
}

/** Subtracts what was used for `count` items. */
export function without(all: Usage, one: Usage, count: number): Usage {
  return usageBy((key) => residueOf(all[key], one[key] * count));
}

/** Returns the difference. It is at least 0, even if `part` is larger because of noise. */
export function residueOf(all: number, part: number): number {
  return Math.max(0, all - part);
}

function usageBy(of: (key: keyof Usage) => number): Usage {
  return {
    mainMs: of('mainMs'),
    otherMs: of('otherMs'),
    redisMs: of('redisMs'),
    redisCommands: of('redisCommands'),
    redisBytes: of('redisBytes'),
  };
}

async function redisUsageOf(redis: RedisService): Promise<{ ms: number; commands: number; bytes: number }> {
  const info = await redis.cli('info', 'everything');
  const number = (name: string): number => Number(new RegExp(`^${name}:([\\d.]+)`, 'm').exec(info)?.[1]);
  const { mainMs, otherMs } = threadTimes(number('process_id'));
  return {
    ms: mainMs + otherMs,
    commands: number('total_commands_processed'),
    bytes: number('total_net_input_bytes') + number('total_net_output_bytes'),
  };
}

function sum(values: readonly number[]): number {
  return values.reduce((all, one) => all + one, 0);
}

/** Returns the memory usage of a process in KiB. */
export function residentKiB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}
