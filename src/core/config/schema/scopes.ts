/** The rights of a token for its pipelines. */
export const scopes = ['upload', 'run', 'cancel', 'releases', 'read'] as const;
export type Scope = (typeof scopes)[number];
