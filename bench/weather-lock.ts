import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import postgres from 'postgres';
import { goal } from './measure.ts';
import { type Load, load, type Measured, medianOf, printLoad } from './weather-load.ts';
import type { Served } from './weather-servers.ts';

const crowd = 64;
/** All of these requests need a query, because no response is cached. */
const anyLimit = `request = function() return wrk.format('GET', string.format('/alerts?limit=%d', math.random(1, 500))) end`;

export interface BesideLock {
  reader: Served;
  /** The URL of a database, with a role that may lock tables. */
  ownerUrl: string;
  directory: string;
  rounds: number;
  /** The length of a round in seconds. */
  seconds: number;
  /** A Lua script with requests for families that are not locked. */
  script: string;
}

/**
 * Measures how much slower other families become if one table is locked and 64 clients keep requesting its
 * family. Returns true if the slowest percentile of their responses takes less than three times as long.
 */
export async function besideALock(options: BesideLock): Promise<boolean> {
  const { reader, ownerUrl, directory, rounds, seconds, script } = options;
  const asked: Load = { ...reader, clients: 8, seconds, script };
  const measure = (): Measured => medianOf(Array.from({ length: rounds }, () => load(asked)));
  load({ ...asked, seconds: 2 });
  const quiet = measure();
  const limits = path.join(directory, 'limits.lua');
  writeFileSync(limits, anyLimit);
  const sql = postgres(ownerUrl, { max: 1 });
  const locked = await sql.begin(async (queries) => {
    await queries`lock table weather.alerts in access exclusive mode`;
    const lasts = (rounds + 2) * (seconds + 1);
    const clients = ['-t1', `-c${crowd}`, `-d${lasts}s`, '-s', limits, reader.url];
    const child = spawn('wrk', clients, { stdio: 'ignore' });
    try {
      load({ ...asked, seconds: 2 });
      return measure();
    } finally {
      child.kill();
      await once(child, 'close');
    }
  });
  await sql.end();
  console.log(`\n8 clients, any station, cache: 0s`);
  printLoad('nothing else', quiet);
  printLoad(`with ${crowd} clients of a locked table`, locked);
  const factor = locked.p99Ms / quiet.p99Ms;
  return goal(`p99 next to a locked table / alone: ${factor.toFixed(2)}, aim < 3`, factor < 3);
}
