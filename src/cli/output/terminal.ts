import { fstatSync, statSync, writeSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { describeFileError } from '../../core/lib/system-errors.ts';

/** Standard output or standard error. */
type StandardStream = 1 | 2;

const streamOf = (descriptor: StandardStream): NodeJS.WriteStream =>
  descriptor === 1 ? process.stdout : process.stderr;

/**
 * Writes text without creating a Node.js stream, which takes longer than printing the help. If the descriptor
 * is a pipe that is full and does not block, the rest is written through a stream after all. A closed pipe is
 * not an error. Any other error is printed and ends the process with exit code 1.
 */
export function writeNow(descriptor: StandardStream, text: string): void {
  let rest = Buffer.from(text);
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EPIPE') return;
    if (code !== 'EAGAIN') {
      reportUnwritable(descriptor, error);
      process.exit(1);
    }
    tolerateBrokenPipes();
    streamOf(descriptor).write(rest);
  }
}

/** Returns the terminal's width in columns, or `otherwise` if there is no terminal. */
export function columnsOf(descriptor: StandardStream, otherwise = 80): number {
  const stream = mayBeTerminal(descriptor) ? streamOf(descriptor) : null;
  return stream?.isTTY === true && stream.columns > 0 ? stream.columns : otherwise;
}

/** Whether the command has to finish its work, even if its output cannot be written. */
let hasToFinish = false;

/**
 * Handles errors of standard output and standard error. A closed pipe, as in `| head`, is not a failure, but
 * must not hide a real failure either. Any other error is printed, and the exit code is 1. The process ends
 * immediately, unless `finishWithoutReader` was called.
 */
export function tolerateBrokenPipes(): void {
  if (!process.stdout.listeners('error').includes(onBrokenOutput)) process.stdout.on('error', onBrokenOutput);
  if (!process.stderr.listeners('error').includes(onBrokenErrors)) process.stderr.on('error', onBrokenErrors);
}

const onBrokenOutput = (error: NodeJS.ErrnoException): void => onBrokenStream(1, error);
const onBrokenErrors = (error: NodeJS.ErrnoException): void => onBrokenStream(2, error);

/** Lets the command finish if its output cannot be written, so that it does not stop halfway. */
export function finishWithoutReader(): void {
  hasToFinish = true;
}

const reported = new Set<StandardStream>();

function onBrokenStream(descriptor: StandardStream, error: NodeJS.ErrnoException): void {
  const isClosed = error.code === 'EPIPE';
  if (!isClosed && !reported.has(descriptor)) reportUnwritable(descriptor, error);
  reported.add(descriptor);
  if (!hasToFinish) process.exit(isClosed ? (process.exitCode ?? 0) : 1);
  if (!isClosed && process.listenerCount('exit', failOnExit) === 0) process.on('exit', failOnExit);
}

/** Prints why standard output cannot be written. If standard error cannot be written either, does nothing. */
function reportUnwritable(descriptor: StandardStream, error: unknown): void {
  if (descriptor === 2) return;
  try {
    writeSync(2, `error  standard output cannot be written: ${describeFileError(error)}\n`);
  } catch {
    // The exit code still reports the failure.
  }
}

function failOnExit(): void {
  if (process.exitCode === undefined || process.exitCode === 0) process.exitCode = 1;
}

/**
 * Returns false if the descriptor is certainly not a terminal. This is faster than creating a stream, which
 * would be the only way to be sure that it is.
 */
function mayBeTerminal(descriptor: StandardStream): boolean {
  try {
    const stats = fstatSync(descriptor);
    return stats.isCharacterDevice() && stats.rdev !== statSync('/dev/null').rdev;
  } catch {
    return false; // The descriptor is closed.
  }
}

/**
 * Wraps lines that are wider than the terminal between columns, or else between words. Continuation lines
 * are indented like the first line, or by the result of `continued`. A word that is wider than the terminal
 * is not split. Color codes have no width.
 */
export function wrapLines(
  text: string,
  width: number,
  continued: (line: string) => number = (line) => /^ */.exec(line)?.[0].length ?? 0,
): string {
  return text
    .split('\n')
    .flatMap((line) => (widthOf(line) <= width ? [line] : wrappedLine(line, width, continued(line))))
    .join('\n');
}

function wrappedLine(line: string, width: number, indent: number): string[] {
  const lines: string[] = [];
  let current = '';
  let columns = 0;
  // Two spaces end a cell. A cell is not broken if it fits on one line.
  const cells = line.match(/ *[^ ]+(?: [^ ]+)*/g) ?? [];
  const parts = cells.flatMap((cell) =>
    widthOf(cell.trimStart()) <= width - indent ? [cell] : (cell.match(/ *[^ ]+/g) ?? []),
  );
  // Each part includes the spaces before it, so that columns stay aligned.
  for (const word of parts) {
    const wide = widthOf(word);
    // After a sign or label alone, the next line would have no more room.
    if (current.trim() !== '' && columns > indent && columns + wide > width) {
      lines.push(current);
      current = ' '.repeat(indent) + word.trimStart();
      columns = widthOf(current);
    } else {
      current += word;
      columns += wide;
    }
  }
  return [...lines, current];
}

/**
 * Returns the indent for lines that have been wrapped. The text continues below the text after the sign (`+
 * path`) or the label (`error text`).
 */
export function hangingIndent(width: number): (line: string) => number {
  return (line) => {
    const plain = stripVTControlCharacters(line);
    const indent = /^ */.exec(plain)?.[0].length ?? 0;
    const label = /^ *(?:[^\s\p{L}\p{N}] +|\S+ {2,})/u.exec(plain)?.[0].length ?? 0;
    return label > indent && label <= width / 3 ? label : indent + 2;
  };
}

/**
 * Returns the width of the text in code points, without color codes. This is precise enough for aligning
 * columns. A table of actual character widths would take longer to load than everything else.
 */
export function widthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}
