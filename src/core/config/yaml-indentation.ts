/** A block that contains lines of the same indentation. */
interface Level {
  indent: number;
  isItem: boolean;
  /** Whether something may stand deeper below it: its line ends with a colon or a dash. */
  isOpen: boolean;
}

/**
 * Describes the wrong indentation of a line (from 1) of a YAML text where a parser failed; undefined if the
 * line fits the lines above. A guess about block maps and lists, so call it only after a parser error.
 * Pure.
 */
export function indentationFault(text: string, line: number): string | undefined {
  const lines = text.split(/\r?\n/);
  const wrong = lines[line - 1] ?? '';
  if (!isContent(wrong)) return undefined;
  const open: Level[] = [];
  for (const above of lines.slice(0, line - 1).filter(isContent)) {
    const levels = levelsOf(above);
    while ((open.at(-1)?.indent ?? -1) >= (levels[0]?.indent ?? 0)) open.pop();
    open.push(...levels);
  }
  const [first] = levelsOf(wrong);
  if (first === undefined) return undefined;
  const { indent, isItem } = first;
  const above = open.at(-1);
  if (above === undefined) return undefined;
  const spaces = `the line is indented by ${indent} ${indent === 1 ? 'space' : 'spaces'}`;
  if (indent > above.indent)
    return above.isOpen
      ? undefined
      : `${spaces}, and the one above by ${above.indent}; a key or value below another begins in the same column`;
  const closed = open.filter((level) => level.indent > indent);
  const same = open.find((level) => level.indent === indent);
  const fits = [...new Set(open.map((level) => level.indent))].join(' or ');
  if (same === undefined) return `${spaces}; expected ${fits}, as the lines above that it may belong to`;
  const list = closed.find((level) => level.isItem);
  if (isItem && !same.isItem && list !== undefined)
    return `${spaces}, and the list above by ${list.indent}; the items of a list begin in the same column`;
  return undefined;
}

function isContent(line: string): boolean {
  return /\S/.test(line) && !/^\s*#/.test(line);
}

/** `- - key: 1` begins three levels, each deeper than the one before. */
function levelsOf(line: string): Level[] {
  const levels: Level[] = [];
  let indent = /^ */.exec(line)?.[0].length ?? 0;
  let rest = line.slice(indent);
  for (let dash = /^- +/.exec(rest); dash !== null; dash = /^- +/.exec(rest)) {
    levels.push({ indent, isItem: true, isOpen: true });
    indent += dash[0].length;
    rest = rest.slice(dash[0].length);
  }
  const bare = rest.replace(/\s#.*$/, '').trimEnd();
  return [...levels, { indent, isItem: bare === '-', isOpen: /[:|>-]$/.test(bare) }];
}
