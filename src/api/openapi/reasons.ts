import { type ErrorCode, errorTable } from '../../core/lib/error-codes.ts';
import type { Route } from '../http/route.ts';

type RouteFacts = Pick<Route<never>, 'tag' | 'path' | 'scopes' | 'body'>;

/** Returns what an error code means as an answer of this route. */
export function reasonOf(code: ErrorCode, route: RouteFacts): string {
  return narrower[code]?.(route) ?? errorTable[code].about;
}

/** Meanings that are narrower on some routes than in the error table, which is about all routes. */
const narrower: Partial<Record<ErrorCode, (route: RouteFacts) => string | null>> = {
  pipeline_not_found: ({ tag }) => (tag === 'uploads' ? null : 'The pipeline does not exist.'),
  run_not_found: ({ path }) =>
    path.includes('{run_id}') ? null : 'The run of `before` does not exist, or its record has expired.',
  invalid_request: ({ body }) => (body === undefined ? 'A parameter of the request is invalid.' : null),
  forbidden: ({ scopes = [] }) =>
    scopes.every((scope) => scope === 'admin') && scopes.length > 0
      ? 'The token is not the one of `server.admin_token_env`.'
      : null,
  insufficient_scope: ({ scopes = [] }) => {
    const [scope] = scopes.filter((one) => one !== 'admin');
    return scope === undefined ? null : `The token lacks the scope \`${scope}\`.`;
  },
  upload_too_large: ({ tag, path }) =>
    tag === 'scene maps'
      ? 'The document is too large.'
      : path.endsWith('/missing')
        ? 'The manifest is too large.'
        : null,
  too_many_files: ({ path }) =>
    path.endsWith('/missing') ? 'The manifest lists more than `max_files` files.' : null,
  quota_exceeded: ({ path }) =>
    path.endsWith('/events')
      ? 'The token or client has reached its quota of event streams.'
      : 'The token has reached its quota of uploads.',
};
