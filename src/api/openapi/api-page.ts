import { STATUS_CODES } from 'node:http';
import { errorTable } from '../../core/lib/error-codes.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { statusOf } from '../http/answer/error-status.ts';
import type {
  MediaType,
  OpenApiDocument,
  OpenApiParameter,
  Operation,
  RequestBody,
  ResponseObject,
} from '../http/route.ts';
import type { Page } from '../pages/render-page.ts';
import { publicCodes } from './components.ts';
import { exampleOf } from './example.ts';

/**
 * Renders an OpenAPI document as an HTML page, with a table of contents, a collapsible section with a `curl`
 * command for each operation, error codes and schemas.
 */
export function apiPage(document: OpenApiDocument): Page {
  return {
    title: 'HTTP API',
    template: 'pages/api',
    nav: 'docs',
    styles: ['api'],
    scripts: ['docs'],
    view: pageView(document),
  };
}

function pageView({ info, tags, paths, components }: OpenApiDocument): Page['view'] {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) =>
      operationView(path, { method, operation, schemas: components.schemas }),
    ),
  );
  const [about = [], ...rules] = paragraphs(info.description);
  return {
    about,
    rules,
    hasTokens: operations.some(({ access }) => access !== null),
    scopes: Object.entries(scopeTexts)
      .filter(([name]) => operations.some(({ scopes }) => scopes.includes(name)))
      .map(([name, text]) => ({ name, about: inlines(text) })),
    // A path that needs no token, for the first example. The standalone weather reader has no health check.
    first: '/healthz' in paths ? '/healthz' : '/openapi.json',
    tags: tags.map(({ name, description }) => ({
      name,
      id: `tag-${name.replaceAll(' ', '-')}`,
      about: description,
      operations: operations.filter(({ tag }) => tag === name),
    })),
    errors: errorViews(),
    schemas: Object.entries(components.schemas).map(([name, schema]) => ({ name, text: indented(schema) })),
  };
}

interface OperationView extends Record<string, unknown> {
  tag: string;
  access: Inline[] | null;
  scopes: string[];
}

const scopeTexts: Readonly<Record<string, string>> = {
  upload: 'Send bundles to a pipeline.',
  run: 'Start, retry and rerun runs.',
  cancel: 'Cancel runs. Pause and resume pipelines.',
  releases: 'Make a release current.',
  read: 'Read runs, pipelines and releases.',
  audit: 'Read the audit trail.',
  admin: 'Not a scope, but the token of `server.admin_token_env`.',
};

/** Returns the errors that clients can get, grouped by status. */
function errorViews(): object[] {
  return publicCodes
    .toSorted((a, b) => statusOf[a] - statusOf[b])
    .map((code) => ({
      code,
      status: statusOf[code],
      about: inlines(errorTable[code].about),
      retryable: errorTable[code].retryable,
    }));
}

/** The color of each method, depending on whether it reads, adds, changes or removes something. */
const tones: Readonly<Record<string, string>> = {
  get: 'running',
  post: 'success',
  put: 'waiting',
  patch: 'waiting',
  delete: 'failure',
};

interface OperationParts {
  method: string;
  operation: Operation;
  schemas: Readonly<Record<string, JsonSchema>>;
}

function operationView(path: string, { method, operation, schemas }: OperationParts): OperationView {
  const { operationId, tags, summary, description, parameters, requestBody, responses, security } = operation;
  return {
    id: operationId,
    tag: tags[0] ?? '',
    method: method.toUpperCase(),
    tone: tones[method] ?? 'neutral',
    path,
    // Allow line breaks after slashes, but not within a word.
    segments: path.split(/(?<=\/)/),
    curl: unbroken(curlExample(path, method, operation)),
    summary,
    about: paragraphs(description ?? ''),
    access: accessOf(security),
    scopes: security.flatMap(({ token = [] }) => token),
    parameters: (parameters ?? []).map(parameterView),
    body: requestBody && { about: inlines(requestBody.description), media: bodyView(requestBody.content) },
    responses: Object.entries(responses)
      .filter(([status]) => status < '400')
      // The answer of a special case, such as a dry run, comes last.
      .toSorted(([, a], [, b]) => Number(isSpecial(a)) - Number(isSpecial(b)))
      .map(([status, response]) => ({
        status,
        about: paragraphs(response.description),
        headers: Object.keys(response.headers ?? {}),
        media: mediaView(response.content ?? {}),
        example: answerExample(response, schemas),
        name: STATUS_CODES[status] ?? '',
      })),
    problems: Object.entries(responses)
      .filter(([status]) => status >= '400')
      .map(([status, response]) => ({
        status,
        name: STATUS_CODES[status] ?? '',
        codes: codesOf(response).map((code) => ({ code, about: inlines(reasonOf(code, response)) })),
      })),
  };
}

function parameterView({
  name,
  in: place,
  required,
  description,
  schema,
  example,
}: OpenApiParameter): object {
  const choices = schema['type'] === 'boolean' ? [true, false] : (schema['enum'] ?? []);
  return {
    name,
    place,
    required: required === true,
    about: inlines(description),
    form: inlines(formOf(schema)),
    choices: (choices as unknown[]).map(String).join(' '),
    preset: textOf(schema['default']),
    example: textOf(example),
  };
}

/** Formats the default or an example of a parameter. Returns an empty string if there is none. */
function textOf(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Returns the JSON of a response as text; null if it has none or its schema describes no properties. */
function answerExample(
  { content = {}, description }: ResponseObject,
  schemas: Readonly<Record<string, JsonSchema>>,
): string | null {
  const schema = content['application/json']?.schema;
  const example = schema === undefined ? null : exampleOf(schema, schemas);
  if (example === null || typeof example !== 'object' || Object.keys(example).length === 0) return null;
  // The answer repeats the parameter that it is about.
  const [, name = ''] = specialAnswer.exec(description) ?? [];
  return JSON.stringify(name in example ? { ...example, [name]: true } : example, null, 2);
}

/** The description of an answer to a request with a flag, such as "With `dry_run=true`: …". */
const specialAnswer = /^With `(\w+)=true`/;

function isSpecial({ description }: ResponseObject): boolean {
  return specialAnswer.test(description);
}

/** Says which tokens an operation accepts; null if it needs none. */
function accessOf(security: Operation['security']): Inline[] | null {
  if (security.length === 0) return null;
  const isOptional = security.some(({ token }) => token === undefined);
  const scopes = security.flatMap(({ token = [] }) => token);
  const tokens = [
    ...scopes.filter((scope) => scope !== 'admin').map((scope) => `a token with the scope \`${scope}\``),
    ...(scopes.includes('admin') ? ['the token of `server.admin_token_env`'] : []),
  ];
  const needed = tokens.length === 0 ? 'a token' : tokens.join(', or ');
  return inlines(
    `${isOptional ? 'Can need' : 'Needs'} ${needed}${isOptional ? ', if the server is set up so' : ''}.`,
  );
}

/** A part of a command: a word, which must not be broken, or the space before the next one. */
interface CommandPart {
  text: string;
  isWord: boolean;
  /** True if a narrow screen can break the line after this part. */
  isPath: boolean;
}

/** Splits a command so that lines break only between words and after slashes. */
function unbroken(command: string): CommandPart[] {
  return (command.match(/\s+|[^\s/]*\/|[^\s/]+/g) ?? []).map((text) => ({
    text,
    isWord: text.trim() !== '',
    isPath: text.endsWith('/'),
  }));
}

/** Returns what the response says about a code: its description has a paragraph for each. */
function reasonOf(code: string, { description }: ResponseObject): string {
  const start = `\`${code}\`: `;
  const paragraph = description.split('\n\n').find((each) => each.startsWith(start));
  return paragraph?.slice(start.length) ?? '';
}

/** Returns the error codes of a response, taken from the schema of its problem document. */
function codesOf({ content = {} }: ResponseObject): string[] {
  const properties = content['application/problem+json']?.schema?.['properties'];
  const { code } = (properties ?? {}) as { code?: { enum?: string[] } };
  return code?.enum ?? [];
}

function mediaView(content: Record<string, MediaType>): object[] {
  return Object.entries(content).map(([type, { schema }]) => {
    const ref = schema?.['$ref'];
    const name = typeof ref === 'string' ? (ref.split('/').at(-1) ?? null) : null;
    return { type, name };
  });
}

/** Describes a request or response body, including its example and, for forms, the fields. */
function bodyView(content: Record<string, MediaType>): object[] {
  const media = Object.values(content);
  return mediaView(content).map((view, index) => ({
    ...view,
    example: JSON.stringify(media[index]?.example ?? {}, null, 2),
    parts: Object.keys(media[index]?.schema?.['properties'] ?? {}).join(' '),
  }));
}

/** Summarizes a parameter's schema, such as `integer, minimum 1, maximum 500, default 50`. */
function formOf({ type, enum: choices, ...rest }: JsonSchema): string {
  const words = Array.isArray(choices)
    ? [`one of ${choices.map((choice) => `\`${String(choice)}\``).join(', ')}`]
    : [String(type)];
  for (const [keyword, value] of Object.entries(rest)) words.push(`${keyword} \`${String(value)}\``);
  return words.join(', ');
}

interface Inline {
  text: string;
  code: boolean;
}

function paragraphs(markdown: string): Inline[][] {
  return markdown === '' ? [] : markdown.split('\n\n').map(inlines);
}

/** Splits a description into text and code. Backticks are the only markup that descriptions use. */
function inlines(markdown: string): Inline[] {
  return markdown.split('`').map((text, index) => ({ text, code: index % 2 === 1 }));
}

function indented(schema: JsonSchema): string {
  return JSON.stringify(schema, null, 2);
}

/** The shell variable with the daemon's URL. It includes the base path without the trailing slash. */
const address = '$WAYBILL';

/**
 * Returns a `curl` command for the operation, with shell variables as placeholders: `curl
 * "$WAYBILL/runs/$RUN_ID"`.
 */
function curlExample(
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
  // If authentication is optional, there is an additional, empty requirement.
  const token = security.length > 0 ? ['-H "Authorization: Bearer $WAYBILL_TOKEN"'] : [];
  const verb =
    method === 'get' || (method === 'post' && requestBody !== undefined)
      ? []
      : [`-X ${method.toUpperCase()}`];
  const body = bodyOf(requestBody);
  return [`curl ${url}`, ...verb, ...token, ...headers, ...body].join(' \\\n  ');
}

function bodyOf(body: RequestBody | undefined): string[] {
  const [type, media] = Object.entries(body?.content ?? {})[0] ?? [];
  if (type === undefined) return [];
  if (type === 'multipart/form-data') {
    const [part = 'file'] = Object.keys(media?.schema?.['properties'] ?? {});
    return [`-F ${part}=@bundle.tar.gz`];
  }
  const file = type.includes('json') ? 'body.json' : type.includes('gzip') ? 'bundle.tar.gz' : 'bundle.tar';
  return [`-H "Content-Type: ${type}"`, `--data-binary @${file}`];
}
