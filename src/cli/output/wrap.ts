import { stripVTControlCharacters } from 'node:util';

/**
 * Wraps the lines that are wider than the terminal, between words. A line is continued below its own
 * indentation, or below what `continued` returns for it. A word that is wider than the terminal stays whole.
 * Colours have no width. Pure.
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
  // Each word has the blanks before it, so that columns stay columns.
  for (const [word] of line.matchAll(/ *[^ ]+/g)) {
    const wide = widthOf(word);
    if (current.trim() !== '' && columns + wide > width) {
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

/** The indent of wrapped lines: below the text after a sign (`+ path`) or label (`error  text`). Pure. */
export function belowLabel(width: number): (line: string) => number {
  return (line) => {
    const plain = stripVTControlCharacters(line);
    const indent = /^ */.exec(plain)?.[0].length ?? 0;
    const label = /^ *(?:[^\s\p{L}\p{N}] +|\S+ {2,})/u.exec(plain)?.[0].length ?? 0;
    return label > indent && label <= width / 3 ? label : indent + 2;
  };
}

/**
 * In code points, without colours: close enough for a column. A table of character widths would take longer
 * to load than the rest of the output.
 */
export function widthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}
