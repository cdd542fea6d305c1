import { fstatSync, statSync, writeSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';

/** A descriptor that every program starts with. */
type StandardStream = 1 | 2;

const streamOf = (descriptor: StandardStream): NodeJS.WriteStream =>
  descriptor === 1 ? process.stdout : process.stderr;

/**
 * Writes text without opening a Node.js stream, which would take longer than printing the help. If a
 * non-blocking pipe is full, a stream writes the rest. A reader that closed the pipe is not a failure. Any
 * other error ends the process with exit code 1.
 */
export function writeNow(descriptor: StandardStream, text: string): void {
  let rest = Buffer.from(text);
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(descriptor, rest));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EPIPE') return;
    if (code !== 'EAGAIN') process.exit(1);
    tolerateBrokenPipes();
    streamOf(descriptor).write(rest);
  }
}

/** Returns the terminal's width in columns, or `otherwise` if there is no terminal. */
export function columnsOf(descriptor: StandardStream, otherwise = 80): number {
  const stream = mayBeTerminal(descriptor) ? streamOf(descriptor) : null;
  return stream?.isTTY === true && stream.columns > 0 ? stream.columns : otherwise;
}

/**
 * Ignores readers that close a pipe early (`| head`): that is not a failure and does not hide one. Any other
 * output error ends the process with exit code 1.
 */
export function tolerateBrokenPipes(): void {
  for (const stream of [process.stdout, process.stderr])
    if (!stream.listeners('error').includes(endProcess)) stream.on('error', endProcess);
}

function endProcess({ code }: NodeJS.ErrnoException): never {
  process.exit(code === 'EPIPE' ? (process.exitCode ?? 0) : 1);
}

/**
 * Rules out most descriptors that are not terminals by their file status. Only the stream itself can tell for
 * certain.
 */
function mayBeTerminal(descriptor: StandardStream): boolean {
  try {
    const stats = fstatSync(descriptor);
    return stats.isCharacterDevice() && stats.rdev !== statSync('/dev/null').rdev;
  } catch {
    return false; // The parent process closed it.
  }
}

/**
 * Wraps lines that are wider than the terminal between columns, or else between words. Continuation lines
 * are indented like the first line, or by the result of `continued`. A word that is wider than the terminal
 * is not split. Color codes have no width.
 */
export function wrapped(
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
  // A cell ends at two spaces. It is kept together if it fits on a line of its own.
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
 * Returns the indent of wrapped lines: below the text that follows a sign (`+ path`) or label (`error
 * text`).
 */
export function belowLabel(width: number): (line: string) => number {
  return (line) => {
    const plain = stripVTControlCharacters(line);
    const indent = /^ */.exec(plain)?.[0].length ?? 0;
    const label = /^ *(?:[^\s\p{L}\p{N}] +|\S+ {2,})/u.exec(plain)?.[0].length ?? 0;
    return label > indent && label <= width / 3 ? label : indent + 2;
  };
}

/**
 * Returns the width in code points, without color codes, which is accurate enough for a column. A table of
 * character widths would take longer to load than the rest of the output.
 */
export function widthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}
