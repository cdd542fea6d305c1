import { execFileSync } from 'node:child_process';
import { mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Test } from 'tap';
import { ensureInstalled } from './debian.ts';

/** The wall clock of programs, which can be moved while they run. Their monotonic clock is the real one. */
export interface FakeTime {
  /** Environment of the programs. */
  env: Record<string, string>;
  /** Sets the clock to the real time plus this many seconds. */
  shift(seconds: number): void;
}

export async function fakeTime(t: Pick<Test, 'teardown'>): Promise<FakeTime> {
  await ensureInstalled('faketime');
  const directory = mkdtempSync(path.join(tmpdir(), 'waybill-faketime-'));
  t.teardown(() => rmSync(directory, { recursive: true, force: true }));
  const file = path.join(directory, 'offset');
  const shift = (seconds: number): void => {
    writeFileSync(`${file}.new`, `${seconds < 0 ? '' : '+'}${seconds}\n`);
    renameSync(`${file}.new`, file);
  };
  shift(0);
  // The wrapper knows the path of the library in Debian.
  const print = ['-f', '+0', 'printenv', 'LD_PRELOAD'];
  const library = execFileSync('faketime', print, { encoding: 'utf8' }).trim();
  return {
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    },
    shift,
  };
}
