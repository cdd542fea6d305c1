import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** The result of testing with other software, for example with one version of Node.js. */
export interface MatrixRow {
  /** The tested subject, such as `20` or `OpenSSH`. There is one row for each. */
  readonly subject: string;
  /** The version that was tested, for example `20.19.0`. It can be different on each machine. */
  readonly version: string;
  /** The results by column: `{upload: 'yes', 'scene map': 'yes'}`. */
  readonly found: Readonly<Record<string, string>>;
}

interface Matrix {
  /** The heading of the first column. */
  readonly subjects: string;
  /** The page with the table. It is between the lines `<!-- matrix NAME -->` and `<!-- end of matrix -->`. */
  readonly page: string;
}

export const matrices = {
  'node-releases': { subjects: 'Node.js', page: 'docs/servers.md' },
  's3-servers': { subjects: 'S3 server', page: 'docs/servers.md' },
  'sftp-servers': { subjects: 'SFTP server', page: 'docs/servers.md' },
} as const satisfies Record<string, Matrix>;

export type MatrixName = keyof typeof matrices;

/** The latest results on this machine. Each row is a file of its own, because test files run in parallel. */
const foundIn = '.tap/matrices';
/**
 * The results that the pages show. `npm run generate` updates them from the latest results, so do not edit
 * them.
 */
const keptIn = 'test/matrices';

const names = Object.keys(matrices) as MatrixName[];
const bySubject = new Intl.Collator('en', { numeric: true });

/** Returns the latest rows of a table, by subject. Returns none if the tests have not run. */
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

/** Deletes the latest results before the tests run. */
export function forgetFoundRows(): void {
  rmSync(foundIn, { recursive: true, force: true });
}

/** Updates the results that the pages show with the latest ones. Returns the contents of the files. */
export function keepFoundRows(): { file: string; text: string }[] {
  return names.flatMap((name) => {
    // If a test was skipped, there is no result.
    const found = foundRows(name).filter((row) => Object.keys(row.found).length > 0);
    const subjects = new Set(found.map(({ subject }) => subject));
    const rows = [...keptRows(name).filter(({ subject }) => !subjects.has(subject)), ...found];
    if (rows.length === 0) return [];
    return [{ file: `${keptIn}/${name}.json`, text: `${JSON.stringify(sorted(rows), null, 2)}\n` }];
  });
}

/** Formats a table in Markdown, aligned as Prettier does. Tables are also printed to the terminal. */
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

/** Returns the page with all of its tables updated. */
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

/** Returns the pages that contain tables. */
export function matrixPages(): string[] {
  return [...new Set(names.filter((name) => keptRows(name).length > 0).map((name) => matrices[name].page))];
}

/** Returns the latest tables, to be printed after the tests. Returns none if there are no results. */
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
