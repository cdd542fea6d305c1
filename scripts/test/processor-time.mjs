/**
 * Loaded before a test file. At exit, prints the processor time of the file and its child processes in
 * milliseconds. Unlike the duration, it does not depend on other load. Prints nothing on a machine without
 * `/proc`.
 */
import { readFileSync, writeSync } from 'node:fs';
import process from 'node:process';

/** Linux counts in ticks of 10 ms. */
const msOfTick = 10;

process.on('exit', () => {
  try {
    // The fields after the name in parentheses; 11 to 14 are the times of the process and of its children.
    const fields = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    writeSync(1, `\n# processor time: ${ticks * msOfTick}\n`);
  } catch {
    // The reader of the output has closed the pipe.
  }
});
