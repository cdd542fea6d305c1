/** Line and column, both from 1; columns count UTF-16 code units, as editors do. */
export interface Position {
  line: number;
  column: number;
}

/**
 * Converts offsets to positions. Call it with ascending offsets: it walks the text once and keeps no index of
 * the lines.
 */
export function positionsIn(text: string): (offset: number) => Position {
  let line = 1;
  let lineStart = 0;
  let nextBreak = text.indexOf('\n');
  return (offset) => {
    while (nextBreak !== -1 && nextBreak < offset) {
      line += 1;
      lineStart = nextBreak + 1;
      nextBreak = text.indexOf('\n', lineStart);
    }
    return { line, column: offset - lineStart + 1 };
  };
}
