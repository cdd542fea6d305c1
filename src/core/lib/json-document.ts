/**
 * Returns the JSON document of a command or a response (`schemas/cli-output.schema.json`). Names are
 * converted to snake case object by object while writing, because a run may have a hundred thousand objects.
 *
 * @param indent Number of spaces per indentation level. With 0, the document is a single line.
 */
export function jsonDocument(kind: string, body: object, indent: number): string {
  return JSON.stringify({ schemaVersion: 1, kind, ...body }, inSnakeCase, indent);
}

function inSnakeCase(_key: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [snakeCase(key), inner as unknown]));
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
