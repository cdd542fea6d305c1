/**
 * The one JSON document of a command or an answer (`schemas/cli-output.schema.json`): the core's names become
 * snake case, object by object while they are written, since a run may have a hundred thousand of them.
 *
 * @param indent Spaces that each level is indented by; 0: one line.
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
