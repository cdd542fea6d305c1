/** The envelope of a JSON answer; nothing else stands beside `data`. */
export function renderJson(data: object | null): string {
  return JSON.stringify({ data });
}
