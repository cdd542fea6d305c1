/* Shows the permissions of a visitor. */

export interface Right {
  label: string;
  /** The actions, in words. */
  about: string;
  isGranted: boolean;
}

/** Returns the rights that are the same in all pipelines, or null if a table has to list them. */
export function sharedRights(
  pipelines: readonly { role: string | null; rights: readonly Right[] }[],
): readonly Right[] | null {
  const kinds = new Set(pipelines.map(({ role, rights }) => JSON.stringify([role, rights])));
  return kinds.size === 1 ? (pipelines[0]?.rights ?? null) : null;
}
