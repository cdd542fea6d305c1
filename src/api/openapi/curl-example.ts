import type { Operation, RequestBody } from '../http/openapi-types.ts';

/** What stands for the address of the daemon, the base path included but for its last slash. */
const address = '$WAYBILL';

/**
 * A command that makes a request of this operation, with shell variables for what is to be filled in:
 * `curl "$WAYBILL/runs/$RUN_ID"`. Pure.
 */
export function curlExample(
  path: string,
  method: string,
  { parameters = [], requestBody, security }: Operation,
): string {
  const filled = path.replaceAll(/\{([a-z_]+)\}/g, (_whole, name: string) => `$${name.toUpperCase()}`);
  const query = parameters
    .filter((one) => one.in === 'query' && one.required === true)
    .map(({ name }) => `${name}=$${name.toUpperCase()}`);
  const url = `"${address}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}"`;
  const headers = parameters
    .filter((one) => one.in === 'header' && one.required === true)
    .map(({ name }) => `-H "${name}: $${name.toUpperCase().replaceAll('-', '_')}"`);
  // A route that may be called without says so by a second, empty requirement.
  const token = security.length > 0 ? ['-H "Authorization: Bearer $WAYBILL_TOKEN"'] : [];
  const verb =
    method === 'get' || (method === 'post' && requestBody !== undefined)
      ? []
      : [`-X ${method.toUpperCase()}`];
  const body = bodyOf(requestBody);
  return ['curl', ...verb, ...token, ...headers, ...body, url].join(' ');
}

function bodyOf(body: RequestBody | undefined): string[] {
  const [type, media] = Object.entries(body?.content ?? {})[0] ?? [];
  if (type === undefined) return [];
  if (type === 'multipart/form-data') {
    const [part = 'file'] = Object.keys(media?.schema?.['properties'] ?? {});
    return [`-F ${part}=@bundle.tar.gz`];
  }
  const file = type.includes('json') ? 'body.json' : 'bundle.tar.gz';
  return [`-H "Content-Type: ${type}"`, `--data-binary @${file}`];
}
