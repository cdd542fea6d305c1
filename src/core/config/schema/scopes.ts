/** The permissions that a token can have for its pipelines. */
export const scopes = ['upload', 'run', 'cancel', 'releases', 'read', 'audit'] as const;
export type Scope = (typeof scopes)[number];
/** The scopes of a token for which none are configured. */
export const defaultScopes: readonly Scope[] = ['upload', 'run', 'cancel', 'releases', 'read'];
