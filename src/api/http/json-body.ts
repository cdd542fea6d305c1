import type { IncomingMessage, ServerResponse } from 'node:http';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { WaybillError } from '../../core/lib/errors.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { queryParameters } from './query-parameters.ts';
import { type MemoryBodyPorts, readBody, smallBodyBytes } from './request/request-body.ts';
import { isJson, mediaTypeOf } from './request/request-head.ts';
import { jsonContent, type RequestBody } from './route.ts';

/**
 * Reads a request's JSON body, for requests with only a few options. Returns undefined if the body is empty.
 * Throws `unsupported_media_type` for other media types, `invalid_request` if the body is not JSON or is
 * larger than 16 KiB, and the same errors as `readBody`.
 */
export async function readSmallJson(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<unknown> {
  const type = mediaTypeOf(req);
  if (type !== '' && !isJson(type)) throw wrongType(res, `"${type}" is not JSON`);
  const encoding = req.headers['content-encoding'];
  if (encoding !== undefined && encoding !== 'identity')
    throw wrongType(res, 'a Content-Encoding is not supported');
  const bytes = await readBody(req, res, ports, { maxBytes: smallBodyBytes, tooLong });
  if (bytes.length === 0) return undefined;
  if (type === '') throw wrongType(res, 'the body has no Content-Type');
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as unknown;
  } catch (cause) {
    throw new WaybillError('invalid_request', 'the body is not JSON', { cause, hint: 'send {} or nothing' });
  }
}

function tooLong(): WaybillError {
  return new WaybillError('invalid_request', `the body has more than ${smallBodyBytes} bytes`, {
    hint: 'this route takes a small JSON object',
  });
}

function wrongType(res: ServerResponse, message: string): WaybillError {
  res.setHeader('Accept-Post', 'application/json');
  return new WaybillError('unsupported_media_type', message, {
    hint: 'send application/json as it is, or no body',
  });
}

/**
 * Validates request bodies against a schema, which is compiled on first use to keep startup fast. The
 * returned function throws `invalid_request` with the first violation.
 */
export function bodyCheck(schema: JsonSchema, hint: string): (body: unknown) => void {
  let isValid: ValidateFunction | undefined;
  return (body) => {
    // Our own schemas do not need to be validated. Compiling the meta-schema would take longer than any of
    // them.
    isValid ??= new Ajv2020({ meta: false, validateSchema: false }).compile(schema);
    if (!isValid(body)) throw refusal(isValid.errors?.[0], hint);
  };
}

function refusal(error: ErrorObject | undefined, hint: string): WaybillError {
  const { instancePath = '' } = error ?? {};
  const name = instancePath.slice(1).replaceAll('/', '.');
  const place = name === '' ? 'the body' : `the property "${name}"`;
  return new WaybillError('invalid_request', sentenceOf(error, place), { hint });
}

/** Says what the schema demands, because the words of the validator are about the schema. */
function sentenceOf(error: ErrorObject | undefined, place: string): string {
  const params = (error?.params ?? {}) as Record<string, unknown>;
  switch (error?.keyword) {
    case 'additionalProperties':
      return `there is no property "${String(params['additionalProperty'])}"`;
    case 'type':
      return `${place} must be ${[params['type']].flat().map(withArticle).join(' or ')}`;
    case 'minLength':
      return `${place} is empty`;
    case 'maxLength':
      return `${place} has more than ${String(params['limit'])} characters`;
    case 'pattern':
      return `${place} has a character that is not allowed, such as a line break`;
    default:
      return `${place} is not valid`;
  }
}

function withArticle(type: unknown): string {
  const name = String(type);
  return name === 'null' ? name : `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`;
}

const noProperties: JsonSchema = { type: 'object', additionalProperties: false, properties: {} };
const checkNoProperties = bodyCheck(noProperties, 'send no body or {}');
const noQuery = queryParameters({});

/** Describes an empty body in the OpenAPI document. */
export const emptyRequest: RequestBody = {
  description: 'Empty, or an empty object.',
  required: false,
  content: jsonContent(noProperties, {}),
};

/**
 * Throws `invalid_request` if the request has a query string, or a body with any properties. Also throws the
 * same errors as `readSmallJson`.
 */
export async function requireEmptyRequest(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<void> {
  noQuery.read(req.url ?? '');
  const body = await readSmallJson(req, res, ports);
  if (body !== undefined) checkNoProperties(body);
}
