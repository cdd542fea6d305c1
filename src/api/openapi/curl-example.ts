import type { JsonSchema } from '../../core/lib/parameters.ts';
import type { Operation, RequestBody } from '../http/route.ts';

/** The shell variable with the daemon's URL. It includes the base path without the trailing slash. */
const address = '$WAYBILL';

/**
 * Returns a `curl` command for the operation, with shell variables as placeholders: `curl
 * "$WAYBILL/runs/$RUN_ID"`.
 */
export function curlExample(
  path: string,
  method: string,
  { parameters = [], requestBody, security }: Operation,
): CommandPart[] {
  const filled = path.replaceAll(/\{([a-z_]+)\}/g, (_whole, name: string) => `$${name.toUpperCase()}`);
  const query = parameters
    .filter((one) => one.in === 'query' && one.required === true)
    .map(({ name }) => `${name}=$${name.toUpperCase()}`);
  const url = `"${address}${filled}${query.length > 0 ? `?${query.join('&')}` : ''}"`;
  const headers = parameters
    .filter((one) => one.in === 'header' && one.required === true)
    .map(({ name }) => `-H "${name}: $${name.toUpperCase().replaceAll('-', '_')}"`);
  // If authentication is optional, there is an additional, empty requirement.
  const token = security.length > 0 ? ['-H "Authorization: Bearer $WAYBILL_TOKEN"'] : [];
  const verb =
    method === 'get' || (method === 'post' && requestBody !== undefined)
      ? []
      : [`-X ${method.toUpperCase()}`];
  const body = bodyOf(requestBody);
  return unbroken([`curl ${url}`, ...verb, ...token, ...headers, ...body].join(' \\\n  '));
}

function bodyOf(body: RequestBody | undefined): string[] {
  const [type, media] = Object.entries(body?.content ?? {})[0] ?? [];
  if (type === undefined) return [];
  if (type === 'multipart/form-data') {
    const [part = 'file'] = Object.keys(media?.schema?.['properties'] ?? {});
    return [`-F ${part}=@bundle.tar.gz`];
  }
  if (type === 'application/x-www-form-urlencoded') return fieldsOf(media?.schema ?? {});
  const file = type.includes('json') ? 'body.json' : type.includes('gzip') ? 'bundle.tar.gz' : 'bundle.tar';
  return [`-H "Content-Type: ${type}"`, `--data-binary @${file}`];
}

/** Returns an option for each required field of a form. */
function fieldsOf({ required, properties }: JsonSchema): string[] {
  const schemas = (properties ?? {}) as Record<string, { const?: string; enum?: string[] }>;
  return ((required ?? []) as string[]).map((name) => {
    const value = schemas[name]?.const ?? schemas[name]?.enum?.[0] ?? `$${name.toUpperCase()}`;
    return `--data-urlencode "${name}=${value}"`;
  });
}

/** A part of a command: a word, which must not be broken, or the space before the next one. */
interface CommandPart {
  text: string;
  isWord: boolean;
  /** True if a narrow screen can break the line after this part. */
  isPath: boolean;
}

/**
 * Splits a command so that lines break only between words and after slashes of the URL. The backslash at the
 * end of a line stays with the word before it.
 */
function unbroken(command: string): CommandPart[] {
  const parts = command.match(/\s+|(?:application\/[^\s/]+|[^\s/]*\/|[^\s/]+)(?: \\(?=\n))?/g) ?? [];
  return parts.map((text) => ({
    text,
    isWord: text.trim() !== '',
    isPath: text.endsWith('/'),
  }));
}
