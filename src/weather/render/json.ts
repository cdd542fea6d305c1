import type { AnswerMeta } from './meta.ts';

/** The envelope of a JSON answer; nothing stands beside `data` unless there is something to say about it. */
export function renderJson(data: object | null, meta: AnswerMeta | null = null): string {
  return JSON.stringify(meta === null ? { data } : { data, meta });
}
