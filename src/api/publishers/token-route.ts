import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Request, RequestHandler } from 'express';
import { type Scope, scopes } from '../../core/config/schema/schema.ts';
import type { Current } from '../../core/lib/current.ts';
import { digestOf } from '../../core/lib/digest.ts';
import { asWaybillError, hasCode, WaybillError } from '../../core/lib/errors.ts';
import type { Log } from '../../core/lib/log.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { publishedBy } from '../../core/publishers/published-by.ts';
import { type MemoryBodyPorts, readBody, smallBodyBytes } from '../http/request/request-body.ts';
import { requestContext } from '../http/request/request-context.ts';
import { mediaTypeOf } from '../http/request/request-head.ts';
import { clientOf } from '../http/request-log.ts';
import { jsonContent, type Route } from '../http/route.ts';
import { type IdentityPorts, refused, verifyIdToken } from './id-token.ts';
import type { Publisher, PublisherAccess } from './publishers.ts';

export interface TokenPorts extends IdentityPorts, MemoryBodyPorts {
  log: Log;
  configured: Current<PublisherAccess>;
}

const formType = 'application/x-www-form-urlencoded';
const exchangeGrant = 'urn:ietf:params:oauth:grant-type:token-exchange';
const tokenTypes = {
  idToken: 'urn:ietf:params:oauth:token-type:id_token',
  jwt: 'urn:ietf:params:oauth:token-type:jwt',
  accessToken: 'urn:ietf:params:oauth:token-type:access_token',
};

const text = (description: string): JsonSchema => ({ type: 'string', description });

const requestSchema: JsonSchema = {
  type: 'object',
  required: ['grant_type', 'subject_token', 'subject_token_type'],
  properties: {
    grant_type: { const: exchangeGrant },
    subject_token: text('The ID token of the CI job.'),
    subject_token_type: { enum: [tokenTypes.idToken, tokenTypes.jwt] },
    scope: text('Requested scopes, separated by spaces. Default: all scopes of the publisher.'),
    pipeline: text('The only pipeline that the token is for. Chooses between publishers that match.'),
    requested_token_type: { enum: [tokenTypes.accessToken, tokenTypes.jwt] },
  },
};

const answerSchema: JsonSchema = {
  description: 'An access token (RFC 8693), with the publisher that it was issued to.',
  type: 'object',
  additionalProperties: false,
  required: [
    'access_token',
    'issued_token_type',
    'token_type',
    'expires_in',
    'scope',
    'publisher_id',
    'subject',
    'pipelines',
  ],
  properties: {
    access_token: text('Accepted wherever a token of `upload_tokens` is.'),
    issued_token_type: { const: tokenTypes.accessToken },
    token_type: { const: 'Bearer' },
    expires_in: { description: 'Lifetime in seconds.', type: 'integer', minimum: 0 },
    scope: text('Scopes of the token, separated by spaces.'),
    publisher_id: text('Id of the entry of `trusted_publishers`.'),
    subject: { description: 'The claim `sub` of the ID token.', type: ['string', 'null'] },
    pipelines: { description: 'Its pipelines.', type: 'array', items: { type: 'string' } },
  },
};

/** Exchanges the ID token of a CI job for an access token, as defined in RFC 8693. */
export const tokenRoute: Route<TokenPorts> = {
  method: 'post',
  path: '/v1/token',
  operationId: 'exchangeToken',
  tag: 'daemon',
  summary: 'Exchange an ID token',
  description:
    'Token exchange (RFC 8693) for `trusted_publishers`. An ID token is accepted once. An error is a problem document that also has the members `error` and `error_description` of OAuth: `invalid_request`, `unsupported_grant_type`, `invalid_scope` or `temporarily_unavailable`.',
  access: 'open',
  audit: 'token.exchange',
  body: {
    description: `A form of at most ${smallBodyBytes / 1024} KiB.`,
    required: true,
    content: { [formType]: { schema: requestSchema } },
  },
  responses: { 200: { description: 'The token.', content: jsonContent(answerSchema) } },
  problems: [
    'invalid_request',
    'unsupported_media_type',
    'id_token_refused',
    'issuer_unavailable',
    'too_many_logins',
    'queue_unavailable',
    'insufficient_storage',
    'server_busy',
  ],
  problemForm: () => 'json',
  handle: (ports) => exchange(ports),
};

function exchange(ports: TokenPorts): RequestHandler {
  return async (req, res) => {
    const client = clientOf(req);
    try {
      await ports.identity.exchangeLimit.admit(client);
      res.json(await answerTo(req, await readForm(req, res, ports), ports));
    } catch (thrown) {
      const error = asWaybillError(thrown);
      if (hasCode(error, 'id_token_refused')) {
        await ports.identity.exchangeLimit.failed(client);
        ports.log.warn({ client, reason: error.message }, 'ID token refused');
      }
      const known = requestContext(req).problemMembers?.['error'];
      const code = known ?? (error.retryable ? 'temporarily_unavailable' : 'invalid_request');
      requestContext(req).problemMembers = { error: code, error_description: error.message };
      throw thrown;
    }
  };
}

async function answerTo(req: Request, form: URLSearchParams, ports: TokenPorts): Promise<object> {
  if (form.get('grant_type') !== exchangeGrant)
    throw unusable(req, 'unsupported_grant_type', 'grant_type', exchangeGrant);
  const type = form.get('subject_token_type');
  if (type !== tokenTypes.idToken && type !== tokenTypes.jwt)
    throw unusable(req, 'invalid_request', 'subject_token_type', tokenTypes.idToken);
  const wanted = form.get('requested_token_type') ?? tokenTypes.accessToken;
  if (wanted !== tokenTypes.accessToken && wanted !== tokenTypes.jwt)
    throw unusable(req, 'invalid_request', 'requested_token_type', tokenTypes.accessToken);

  const { list, seal } = ports.configured.get().publishers;
  const pipeline = form.get('pipeline');
  const candidates = list.filter(({ pipelines }) => pipeline === null || pipelines.includes(pipeline));
  if (candidates.length === 0 && list.length > 0)
    throw refused(`no trusted publisher has the pipeline ${JSON.stringify(pipeline?.slice(0, 64))}`);
  const scope = scopesIn(req, form.get('scope'));
  const grantedBy = (publisher: Publisher): readonly Scope[] =>
    scope === null ? publisher.scopes : scope.filter((one) => publisher.scopes.includes(one));
  const idToken = form.get('subject_token') ?? '';
  const { publisher, claims } = await verifyIdToken(idToken, candidates, ports, (matching) => {
    if (grantedBy(matching).length === 0) throw scopeRefused(req, matching);
  });
  const granted = grantedBy(publisher);

  const by = publishedBy(publisher.id, claims, digestOf(JSON.stringify(claims)));
  const issuedAt = ports.clock.now();
  const expiresAt = new Date(issuedAt.getTime() + publisher.maxLifetimeMs);
  const pipelines = pipeline === null ? publisher.pipelines : [pipeline];
  const context = requestContext(req);
  const { fields } = context;
  context.publishedBy = by;
  Object.assign(fields, { token_id: publisher.id, claims_digest: by.claims_digest });
  if (by.subject !== null) fields['publisher_subject'] = by.subject;
  return {
    access_token: seal.seal({ by, rules: publisher.rules, pipelines, scopes: granted, issuedAt, expiresAt }),
    issued_token_type: tokenTypes.accessToken,
    token_type: 'Bearer',
    expires_in: Math.floor(publisher.maxLifetimeMs / 1000),
    scope: granted.join(' '),
    publisher_id: publisher.id,
    subject: by.subject,
    pipelines,
  };
}

/**
 * Reads the form in the request body. Throws `unsupported_media_type`, or `invalid_request` if a parameter is
 * repeated or the body is too long.
 */
async function readForm(
  req: IncomingMessage,
  res: ServerResponse,
  ports: MemoryBodyPorts,
): Promise<URLSearchParams> {
  if (mediaTypeOf(req) !== formType || req.headers['content-encoding'] !== undefined) {
    res.setHeader('Accept-Post', formType);
    throw new WaybillError('unsupported_media_type', 'the request is not a form', {
      hint: `send ${formType} without a Content-Encoding`,
    });
  }
  const bytes = await readBody(req, res, ports, { maxBytes: smallBodyBytes, tooLong });
  const form = new URLSearchParams(bytes.toString('utf8'));
  const names = [...form.keys()];
  const twice = names.find((name, index) => names.indexOf(name) < index);
  if (twice === undefined) return form;
  throw new WaybillError(
    'invalid_request',
    `the parameter ${JSON.stringify(twice.slice(0, 64))} is repeated`,
  );
}

function tooLong(): WaybillError {
  return new WaybillError('invalid_request', `the body has more than ${smallBodyBytes} bytes`, {
    hint: 'send the ID token and the parameters of RFC 8693 only',
  });
}

function scopesIn(req: Request, text: string | null): Scope[] | null {
  if (text === null) return null;
  const names = text.split(' ').filter((name) => name !== '');
  const known = names.filter((name): name is Scope => (scopes as readonly string[]).includes(name));
  if (known.length === names.length && names.length > 0) return known;
  throw withOAuthError(req, 'invalid_scope', `the scope has a name that is not one of ${scopes.join(', ')}`);
}

function scopeRefused(req: Request, { id, scopes: own }: Publisher): WaybillError {
  const message = `the trusted publisher "${id}" has none of the requested scopes`;
  return withOAuthError(req, 'invalid_scope', message, `request some of ${own.join(', ')}`);
}

function unusable(req: Request, code: string, name: string, expected: string): WaybillError {
  return withOAuthError(
    req,
    code,
    `the parameter ${name} is missing or not supported`,
    `send ${name}=${expected}`,
  );
}

function withOAuthError(req: Request, code: string, message: string, hint?: string): WaybillError {
  requestContext(req).problemMembers = { error: code };
  return new WaybillError('invalid_request', message, { hint });
}
