import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Test results for external software, e.g. one release of Node.js. */
export interface MatrixRow {
  /** Name of the tested subject, which identifies the row, e.g. `20` or `OpenSSH`. */
  readonly subject: string;
  /** The tested version, e.g. `20.19.0`. It may differ between machines. */
  readonly version: string;
  /** Results by column heading, e.g. `{upload: 'yes', 'scene map': 'yes'}`. */
  readonly found: Readonly<Record<string, string>>;
}

interface Matrix {
  /** The heading of the subject column. */
  readonly subjects: string;
  /** The page that shows the table, between the lines `<!-- matrix NAME -->` and `<!-- end of matrix -->`. */
  readonly page: string;
}

export const matrices = {
  'node-releases': { subjects: 'Node.js', page: 'docs/servers.md' },
  's3-servers': { subjects: 'S3 server', page: 'docs/servers.md' },
  'sftp-servers': { subjects: 'SFTP server', page: 'docs/servers.md' },
} as const satisfies Record<string, Matrix>;

export type MatrixName = keyof typeof matrices;

/** The latest test results of this clone, one file per row: test files run in parallel. */
const foundIn = '.tap/matrices';
/** Content of the pages. `npm run generate` writes it from the results; do not edit it. */
const keptIn = 'test/matrices';

const names = Object.keys(matrices) as MatrixName[];
const bySubject = new Intl.Collator('en', { numeric: true });

/** Rows of new or stored results, by subject. Empty if there are none. */
export function foundRows(name: MatrixName): MatrixRow[] {
  const directory = path.join(foundIn, name);
  const rows = filesOf(directory).map((file) => readJson(path.join(directory, file)) as MatrixRow);
  return sorted(rows);
}

export function keptRows(name: MatrixName): MatrixRow[] {
  return filesOf(keptIn).includes(`${name}.json`)
    ? (readJson(path.join(keptIn, `${name}.json`)) as MatrixRow[])
    : [];
}

export function writeFoundRow(name: MatrixName, row: MatrixRow): void {
  const directory = path.join(foundIn, name);
  mkdirSync(directory, { recursive: true });
  writeFileSync(path.join(directory, `${encodeURIComponent(row.subject)}.json`), JSON.stringify(row));
}

/** Removes old results before tests run. */
export function forgetFoundRows(): void {
  rmSync(foundIn, { recursive: true, force: true });
}

/** Merges new results into the stored rows and returns the text of the stored file. */
export function keepFoundRows(): { file: string; text: string }[] {
  return names.flatMap((name) => {
    // Skipped subjects have no result.
    const found = foundRows(name).filter((row) => Object.keys(row.found).length > 0);
    const subjects = new Set(found.map(({ subject }) => subject));
    const rows = [...keptRows(name).filter(({ subject }) => !subjects.has(subject)), ...found];
    if (rows.length === 0) return [];
    return [{ file: `${keptIn}/${name}.json`, text: `${JSON.stringify(sorted(rows), null, 2)}\n` }];
  });
}

/** A Markdown table, aligned like Prettier's output. It is also printed to the terminal. */
export function matrixTable(name: MatrixName, rows: readonly MatrixRow[]): string {
  const columns = [...new Set(rows.flatMap(({ found }) => Object.keys(found)))];
  const cells = [
    [matrices[name].subjects, 'tried with', ...columns],
    ...rows.map(({ subject, version, found }) => [
      subject,
      version,
      ...columns.map((key) => found[key] ?? '–'),
    ]),
  ].map((line) => line.map((cell) => cell.replaceAll('|', '\\|')));
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(3, ...cells.map((line) => (line[column] ?? '').length)),
  );
  const line = (texts: readonly string[]): string =>
    `| ${texts.map((text, column) => text.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const [head = [], ...body] = cells;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n');
}

/** Returns the page with its tables regenerated from the stored results. */
export function withMatrices(page: string, text: string): string {
  const end = '<!-- end of matrix -->';
  return names
    .filter((name) => matrices[name].page === page && keptRows(name).length > 0)
    .reduce((all, name) => {
      const begin = `<!-- matrix ${name} -->`;
      const [before, rest] = all.split(begin);
      const at = rest?.indexOf(end) ?? -1;
      if (rest === undefined || at === -1) throw new Error(`${page} lacks the lines ${begin} and ${end}`);
      return `${before}${begin}\n\n${matrixTable(name, keptRows(name))}\n\n${rest.slice(at)}`;
    }, text);
}

/** Pages with tables of test results. */
export function matrixPages(): string[] {
  return [...new Set(names.filter((name) => keptRows(name).length > 0).map((name) => matrices[name].page))];
}

/** The result tables for the end of the test output. Empty if the tests recorded none. */
export function foundTables(): string[] {
  return names.flatMap((name) => {
    const rows = foundRows(name);
    return rows.length === 0 ? [] : [matrixTable(name, rows)];
  });
}

function sorted(rows: readonly MatrixRow[]): MatrixRow[] {
  return rows.toSorted((a, b) => bySubject.compare(a.subject, b.subject));
}

function filesOf(directory: string): string[] {
  try {
    return readdirSync(directory).filter((name) => name.endsWith('.json'));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return [];
    throw error;
  }
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, 'utf8'));
}
