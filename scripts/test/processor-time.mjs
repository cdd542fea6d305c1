/**
 * Measures the processor time of a test file, including its child processes, and prints it in milliseconds
 * when the process exits. Unlike the duration, it does not depend on what else the machine is doing. This
 * module is loaded before the test file. Without `/proc`, it prints nothing.
 */
import { readFileSync, writeSync } from 'node:fs';
import process from 'node:process';

/** The unit that Linux uses is 10 ms. */
const msOfTick = 10;

process.on('exit', () => {
  try {
    // Skip the name, which is in parentheses. Fields 11 to 14 after it are the times of this process and its
    // children.
    const fields = readFileSync('/proc/self/stat', 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    writeSync(1, `\n# processor time: ${ticks * msOfTick}\n`);
  } catch {
    // Nothing is reading the output anymore.
  }
});
