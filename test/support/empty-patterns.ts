import ts from 'typescript';

/**
 * The lines of a test at which `t.match` gets an empty list as its pattern, or inside it. tap accepts any
 * list for that. `{ length: 0 }` is the right pattern.
 */
export function emptyPatterns(text: string): number[] {
  const file = ts.createSourceFile('test.ts', text, ts.ScriptTarget.Latest, true);
  const lines: number[] = [];
  const lookIn = (pattern: ts.Node): void => {
    if (ts.isArrayLiteralExpression(pattern) && pattern.elements.length === 0)
      lines.push(file.getLineAndCharacterOfPosition(pattern.getStart()).line + 1);
    ts.forEachChild(pattern, lookIn);
  };
  const visit = (node: ts.Node): void => {
    if (
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      ['match', 'has'].includes(node.expression.name.text)
    )
      node.arguments.slice(1).forEach(lookIn);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return lines;
}
