import { readFileSync } from 'node:fs';
import type { RedisService } from '../../test/services/redis.ts';

/** Processor time in milliseconds: of a process's main thread, and of its other threads. */
export interface ThreadTimes {
  mainMs: number;
  otherMs: number;
}

/** Processor time of a process so far, including ended threads (those with a resolution of 10 ms). */
export function threadTimes(pid: number): ThreadTimes {
  // `/proc/PID/task/TID/schedstat` starts with the nanoseconds spent on a processor.
  const mainMs = Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  const allMs = (Number(fields[11]) + Number(fields[12])) * 10;
  return { mainMs, otherMs: Math.max(0, allMs - mainMs) };
}

/** The usage so far of one group of processes, and of all Redis servers. */
export interface Usage extends ThreadTimes {
  redisMs: number;
  redisCommands: number;
  /** Bytes received and sent by Redis, for all of its clients. */
  redisBytes: number;
}

/** `pids`: of the processes whose time counts. */
export async function usageOf(pids: readonly number[], redis: RedisService): Promise<Usage> {
  const times = pids.map(threadTimes);
  const told = await toldBy(redis);
  return {
    mainMs: sum(times.map(({ mainMs }) => mainMs)),
    otherMs: sum(times.map(({ otherMs }) => otherMs)),
    redisMs: told.ms,
    redisCommands: told.commands,
    redisBytes: told.bytes,
  };
}

/** The usage between two measurements, per item. */
export function usedFor(before: Usage, after: Usage, count: number): Usage {
  return usageBy((key) => Math.max(0, after[key] - before[key]) / count);
}

/** Subtracts the usage of `count` items. */
export function without(all: Usage, one: Usage, count: number): Usage {
  return usageBy((key) => residueOf(all[key], one[key] * count));
}

/** The remainder, at least 0: noise can make a part exceed the total. */
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

async function toldBy(redis: RedisService): Promise<{ ms: number; commands: number; bytes: number }> {
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

/** Resident memory of a process, in KiB. */
export function residentKiB(pid: number): number {
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}
