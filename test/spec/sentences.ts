import { readFileSync } from 'node:fs';

/*
 * Splits the specification into statements: the sentences of paragraphs and list items, and the rows of
 * tables. Headings and table heads are not statements.
 */

export const documents = ['bundle-publishing', 'scene-map', 'weather-read'] as const;
export type DocumentName = (typeof documents)[number];

/**
 * The statements of a document in order. The cells of a table row are joined by ` · `. A repeated statement
 * is numbered: `All fields are required. (2)`.
 */
export function statementsOf(document: DocumentName): string[] {
  const file = new URL(`specification/${document}.md`, import.meta.url);
  const lines = readFileSync(file, 'utf8').split('\n');
  const counts = new Map<string, number>();
  const numbered = (statement: string): string => {
    const count = (counts.get(statement) ?? 0) + 1;
    counts.set(statement, count);
    return count === 1 ? statement : `${statement} (${count})`;
  };
  const found = lines.flatMap((line, index) => {
    if (line.trim() === '' || line.startsWith('#')) return [];
    if (!line.startsWith('|')) return sentences(line.replace(/^ *(?:- |\d+\. )/, ''));
    const isHead = lines[index + 1]?.startsWith('|---') === true;
    return isHead || line.startsWith('|---') ? [] : [cells(line).join(' · ')];
  });
  return found.map(numbered);
}

/** The cells of a table row, without the outer bars; `\|` is a bar inside a cell. */
export function cells(row: string): string[] {
  const inner = row.trim().replace(/^\||\|$/g, '');
  return inner.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function sentences(text: string): string[] {
  return text.trim().split(/(?<=\.)\s+(?=[A-Z`])/);
}
