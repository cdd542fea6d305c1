import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { MissingService, pathOf } from '../test/services/debian.ts';

export interface Measured {
  perSecond: number;
  p50Ms: number;
  p99Ms: number;
  /** The processor time that the server needs for a request, in all threads. */
  cpuMicroseconds: number;
  /** The processor time that the database needs for a request. */
  databaseMicroseconds: number;
}

export interface Load {
  url: string;
  /** The process id of the server. */
  pid: number;
  clients: number;
  seconds: number;
  /** Measure the processor time of these database processes as well. */
  databasePids?: readonly number[];
  /** A Lua script that decides what to request. If null, `url` is always requested. */
  script?: string | null;
}

/**
 * Throws `MissingService` if wrk is not installed. No test needs it, so it is not installed with the packages
 * for tests.
 */
export function requireWrk(): void {
  if (pathOf('wrk') === undefined)
    throw new MissingService(
      'missing wrk, which sends the requests; run `apt-get install --no-install-recommends wrk` as root',
    );
}

/** Lets wrk send requests as fast as the server can respond. Throws if there are any errors. */
export function load({ url, pid, clients, seconds, databasePids = [], script = null }: Load): Measured {
  // With a hundred thousand alerts, a request can take longer than the two seconds that are the default.
  const options = ['-t1', `-c${clients}`, `-d${seconds}s`, '--timeout', '30s', '--latency'];
  const inDatabase = (): number => databasePids.reduce((sum, each) => sum + cpuSeconds(each), 0);
  const before = cpuSeconds(pid);
  const databaseBefore = inDatabase();
  const output = execFileSync('wrk', [...options, ...(script === null ? [] : ['-s', script]), url], {
    encoding: 'utf8',
  });
  const used = cpuSeconds(pid) - before;
  const usedInDatabase = inDatabase() - databaseBefore;
  if (/Non-2xx|Socket errors/.test(output)) throw new Error(output);
  const milliseconds = (percent: string): number => {
    const [, value = 'NaN', unit = ''] = new RegExp(`${percent}%\\s+([\\d.]+)(us|ms|s)`).exec(output) ?? [];
    return Number(value) * ({ us: 0.001, ms: 1, s: 1000 }[unit] ?? NaN);
  };
  const requests = Number(/(\d+) requests in/.exec(output)?.[1]);
  return {
    perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(output)?.[1]),
    p50Ms: milliseconds('50'),
    p99Ms: milliseconds('99'),
    cpuMicroseconds: (used * 1e6) / requests,
    databaseMicroseconds: (usedInDatabase * 1e6) / requests,
  };
}

/** Returns how much processor time a process has used so far, in seconds. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

export function medianOf(measured: readonly Measured[]): Measured {
  const middle = (of: (one: Measured) => number): number =>
    measured.map(of).sort((a, b) => a - b)[Math.floor(measured.length / 2)] ?? NaN;
  return {
    perSecond: middle((one) => one.perSecond),
    p50Ms: middle((one) => one.p50Ms),
    p99Ms: middle((one) => one.p99Ms),
    cpuMicroseconds: middle((one) => one.cpuMicroseconds),
    databaseMicroseconds: middle((one) => one.databaseMicroseconds),
  };
}

export function printLoad(name: string, measured: Measured): void {
  const { perSecond, p50Ms, p99Ms, cpuMicroseconds, databaseMicroseconds } = measured;
  const columns = [
    `${Math.round(perSecond)}/s`.padStart(9),
    `${cpuMicroseconds.toFixed(0)} µs CPU`.padStart(11),
    ...(databaseMicroseconds > 0 ? [`+ ${databaseMicroseconds.toFixed(0)} µs in the database`] : []),
    `p50 ${p50Ms.toFixed(2)} ms`.padStart(13),
    `p99 ${p99Ms.toFixed(2)} ms`.padStart(14),
  ];
  console.log(`  ${name.padEnd(44)} ${columns.join('  ')}`);
}
