/** Ids that shell completion offers. */
export interface Names {
  pipelines: { id: string; destinations: string[] }[];
  notifiers: string[];
}

/** Reports whether a value has the form of an id. Other texts could confuse a shell. */
export function isId(id: unknown): id is string {
  return typeof id === 'string' && /^[a-z0-9][a-z0-9_-]{0,63}$/.test(id);
}
