import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import ts from 'typescript';
import { cells, type DocumentName, documents, statementsOf } from './sentences.ts';

/**
 * Every statement of the specification is the title of a test in this folder, or is listed in `README.md`
 * with the reason why it has no test.
 */

const folder = import.meta.dirname;

/** The prefix of the test files for each document. */
const prefixes: Record<DocumentName, string> = {
  'bundle-publishing': 'bundle-',
  'scene-map': 'scene-map',
  'weather-read': 'weather-read',
};

/** First arguments of `t.test(…)`, and the titles of `for (const title of […])`. */
function titlesIn(file: string): string[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  const titles: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
      const [first] = node.arguments;
      if (node.expression.name.text === 'test' && first !== undefined && ts.isStringLiteralLike(first))
        titles.push(first.text);
    }
    if (ts.isForOfStatement(node) && ts.isArrayLiteralExpression(node.expression))
      for (const element of node.expression.elements)
        if (ts.isStringLiteralLike(element)) titles.push(element.text);
    ts.forEachChild(node, visit);
  };
  visit(source);
  return titles;
}

/** The rows of the table of a document in `README.md`: statement and reason. */
function untestable(document: DocumentName): Map<string, string> {
  const readme = readFileSync(path.join(folder, 'README.md'), 'utf8');
  const [, section = ''] = readme.split(`## ${document}`);
  const rows = (section.split('\n## ')[0] ?? '').split('\n').filter((line) => line.startsWith('|'));
  return new Map(
    rows.slice(2).map((row) => {
      const [statement = '', reason = ''] = cells(row);
      return [statement, reason];
    }),
  );
}

for (const document of documents)
  t.test(`every statement of ${document}.md has a test, or a reason why it has none`, async (t) => {
    const statements = statementsOf(document);
    const files = readdirSync(folder).filter(
      (name) => name.startsWith(prefixes[document]) && name.endsWith('.test.ts'),
    );
    const tested = new Set(files.flatMap((name) => titlesIn(path.join(folder, name))));
    const excused = untestable(document);
    t.ok(statements.length > 40, `${statements.length} statements were read`);
    t.same(
      statements.filter((one) => !tested.has(one) && !excused.has(one)),
      [],
      'every statement is covered',
    );
    t.same(
      statements.filter((one) => tested.has(one) && excused.has(one)),
      [],
      'no statement is both tested and excused',
    );
    for (const [statement, reason] of excused) {
      t.ok(statements.includes(statement), `in the specification: ${statement}`);
      t.ok(reason !== '', `with a reason: ${statement}`);
    }
    const count = statements.filter((one) => tested.has(one)).length;
    t.comment(
      `${document}: ${statements.length} statements, ${count} with a test, ${statements.length - count} without`,
    );
  });
