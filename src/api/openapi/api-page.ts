import { STATUS_CODES } from 'node:http';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import type {
  MediaType,
  OpenApiDocument,
  OpenApiParameter,
  Operation,
  ResponseObject,
} from '../http/route.ts';
import type { Page } from '../pages/render-page.ts';
import { publicCodes } from './components.ts';
import { curlExample } from './curl-example.ts';
import { exampleOf } from './example.ts';
import { errorViews, schemaViews } from './groups.ts';
import { type Inline, inlines, paragraphs } from './inlines.ts';
import { limitsOf, typeOf } from './schema-words.ts';

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
    isWide: true,
    view: pageView(document),
  };
}

function pageView(document: OpenApiDocument): Page['view'] {
  const { info, tags, paths, components } = document;
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) =>
      operationView(path, { method, operation, schemas: components.schemas }),
    ),
  );
  const [about = '', ...rules] = info.description.split('\n\n');
  return {
    about: inlines(about),
    rules: rules.map((rule) => {
      const [name = '', text = ''] = rule.split(/: (.*)/s);
      return { name, about: inlines(text) };
    }),
    hasUpload: operations.some(({ id }) => id === 'uploadBundle'),
    hasTokens: operations.some(({ access }) => access !== null),
    scopes: Object.entries(scopeTexts)
      .filter(([name]) => operations.some(({ scopes }) => scopes.includes(name)))
      .map(([name, text]) => ({ name, about: inlines(text) })),
    first: firstOf(operations),
    tags: tags.map(({ name, description }) => ({
      name,
      id: `tag-${name.replaceAll(' ', '-')}`,
      about: description,
      operations: operations.filter(({ tag }) => tag === name),
    })),
    errors: errorViews(),
    errorCount: publicCodes.length,
    schemas: schemaViews(document),
  };
}

/**
 * Returns the path of the first example, which needs no token, and its answer. The standalone weather reader
 * has no health check, and the answer of `/openapi.json` is too long to show.
 */
function firstOf(operations: readonly OperationView[]): { path: string; answer: string | null } {
  const health = operations.find(({ path }) => path === '/healthz');
  return health === undefined
    ? { path: '/openapi.json', answer: null }
    : { path: health.path, answer: health.examples[0]?.text ?? null };
}

interface OperationView extends Record<string, unknown> {
  id: string;
  tag: string;
  path: string;
  examples: readonly { text: string }[];
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
    curl: curlExample(path, method, operation),
    summary,
    about: paragraphs(description ?? ''),
    access: accessOf(path, security),
    scope: scopeOf(security),
    scopes: security.flatMap(({ token = [] }) => token),
    parameters: (parameters ?? []).map(parameterView),
    body: requestBody && { about: inlines(requestBody.description), media: bodyView(requestBody.content) },
    ...answersOf(responses, schemas),
  };
}

/** Separates the answers of an operation from its errors, and takes the examples out of the answers. */
function answersOf(responses: Operation['responses'], schemas: OperationParts['schemas']) {
  const named = Object.entries(responses).map(([status, response]) => ({
    status,
    response,
    name: STATUS_CODES[status] ?? '',
  }));
  const answers = named
    .filter(({ status }) => status < '400')
    // The answer of a special case, such as a dry run, comes last.
    .toSorted((a, b) => Number(isSpecial(a.response)) - Number(isSpecial(b.response)));
  const problems = named
    .filter(({ status }) => status >= '400')
    .map(({ response, ...rest }) => ({
      ...rest,
      codes: codesOf(response).map((code) => ({ code, about: inlines(reasonOf(code, response)) })),
    }));
  return {
    answers: answers.map(({ response, ...rest }) => ({
      ...rest,
      about: paragraphs(response.description),
      // Getting started mentions the header that every answer has.
      headers: Object.keys(response.headers ?? {}).filter((name) => name !== 'X-Request-Id'),
      media: mediaView(response.content ?? {}),
    })),
    examples: answers.flatMap(({ response, ...rest }) => {
      const text = answerExample(response, schemas);
      const [, flag] = specialAnswer.exec(response.description) ?? [];
      return text === null ? [] : { ...rest, text, flag: flag === undefined ? null : `${flag}=true` };
    }),
    problems,
    problemCount: problems.reduce((sum, { codes }) => sum + codes.length, 0),
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
    type: typeOf(schema),
    limits: inlines(limitsOf(schema)),
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

/** Returns a word for the list of operations: the scope that a token needs. null if no token is needed. */
function scopeOf(security: Operation['security']): string | null {
  if (security.length === 0) return null;
  if (security.some(({ token }) => token === undefined)) return 'token optional';
  const scopes = security.flatMap(({ token = [] }) => token);
  return scopes.find((scope) => scope !== 'admin') ?? scopes[0] ?? 'token';
}

/** Says which tokens an operation accepts; null if it accepts none. */
function accessOf(path: string, security: Operation['security']): Inline[] | null {
  if (security.length === 0) return null;
  const isOptional = security.some(({ token }) => token === undefined);
  const owner = path.includes('{pipeline_id}') ? ' of the pipeline' : '';
  const scopes = security.flatMap(({ token = [] }) => token);
  const tokens = [
    ...scopes
      .filter((scope) => scope !== 'admin')
      .map((scope) => `a token${owner} with the scope \`${scope}\``),
    ...(scopes.includes('admin') ? ['the token of `server.admin_token_env`'] : []),
  ];
  const accepted = tokens.length === 0 ? 'a token' : tokens.join(', or ');
  return inlines(`${isOptional ? 'Optional:' : 'Needs'} ${accepted}.`);
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
