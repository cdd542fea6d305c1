import { readFileSync } from 'node:fs';
import { type ErrorCode, errorTable } from '../../core/lib/error-codes.ts';
import type { JsonSchema } from '../../core/lib/parameters.ts';
import { sceneMapSchemaText } from '../../core/scene-map/schema-file.ts';
import { isConcealed } from '../http/answer/error-status.ts';
import { schemaRef } from '../http/route.ts';

/** Returns the schemas that `schemaRef` refers to. Some of them are read from `schemas/`. */
export function componentSchemas(): Record<string, JsonSchema> {
  return {
    ...fromFile('RunRecord', runRecordSchemaText()),
    ...fromFile('SceneMap', sceneMapSchemaText()),
    ...fromFile('Plan', cliOutputSchemaText('run')),
    ...fromFile('Releases', cliOutputSchemaText('releases')),
    ...fromFile('Release', cliOutputSchemaText('release')),
    ...fromFile('ReleaseDiff', cliOutputSchemaText('release-diff')),
    ...fromFile('ReleaseSwitch', cliOutputSchemaText('release-switch')),
    Accepted: accepted,
    PartialUpload: partialUpload,
    MissingFiles: missingFiles,
    RunList: runList,
    RunSearch: runSearch,
    PipelineState: pipelineState,
    Pause: pause,
    SceneMapReport: sceneMapReport,
    Finding: finding,
    HealthCheck: healthCheck,
    Problem: problem,
  };
}

/** The error codes that clients can get. All others are replaced with `internal_error`. */
export const publicCodes = (Object.keys(errorTable) as ErrorCode[]).filter(
  (code) => !isConcealed(code) || code === 'internal_error',
);

const accepted: JsonSchema = {
  description: 'An accepted run. `Location` is the URL of its record.',
  type: 'object',
  additionalProperties: false,
  required: ['run_id', 'status'],
  properties: {
    run_id: { type: 'string' },
    status: { const: 'accepted' },
    position: {
      description:
        'Position in the queue of its pipeline at acceptance. 1 means that no other run was waiting. An active run does not count.',
      type: 'integer',
      minimum: 1,
    },
  },
};

const missingFiles: JsonSchema = {
  description: 'Files of a bundle that must be sent.',
  type: 'object',
  additionalProperties: false,
  required: ['manifest', 'missing'],
  properties: {
    manifest: { description: 'SHA-256 of the manifest, for `Waybill-Partial`.', type: 'string' },
    missing: {
      description: 'Digests of files that the daemon does not keep for the pipeline, without duplicates.',
      type: 'array',
      items: { type: 'string', pattern: '^sha256:[0-9a-f]{64}$' },
    },
  },
};

const partialUpload: JsonSchema = {
  description:
    'A resumable upload. `run_id`, `position` and `replayed` describe its run once it is accepted.',
  type: 'object',
  additionalProperties: false,
  required: [
    'upload_id',
    'offset',
    'length',
    'expires_at',
    'idempotency_key',
    'metadata',
    'run_id',
    'position',
    'replayed',
  ],
  properties: {
    upload_id: { type: 'string' },
    offset: {
      description: 'Number of bytes received: the offset of the next request.',
      type: 'integer',
      minimum: 0,
    },
    length: {
      description: 'Size of the archive in bytes, or null if it is not known yet.',
      type: ['integer', 'null'],
    },
    expires_at: { type: 'string', format: 'date-time' },
    idempotency_key: {
      description: 'Idempotency key of the upload, or null.',
      type: ['string', 'null'],
    },
    metadata: {
      description: 'Decoded `Upload-Metadata` of the upload, or null.',
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'null'] },
    },
    run_id: { type: ['string', 'null'] },
    position: { description: 'As in `Accepted`.', type: ['integer', 'null'], minimum: 1 },
    replayed: { description: 'The key was used before, and the run is the earlier one.', type: 'boolean' },
  },
};

const pageOfRuns = {
  runs: { type: 'array', items: schemaRef('RunRecord') },
  next: {
    description: 'Path and query of the next page, or null on the last page.',
    type: ['string', 'null'],
    format: 'uri-reference',
  },
};

const runList: JsonSchema = {
  description: 'Retained runs of one pipeline, newest first.',
  type: 'object',
  additionalProperties: false,
  required: ['runs', 'next', 'paused'],
  properties: { paused: schemaRef('Pause'), ...pageOfRuns },
};

const runSearch: JsonSchema = {
  description: 'Retained runs of several pipelines, newest first.',
  type: 'object',
  additionalProperties: false,
  required: ['runs', 'next'],
  properties: pageOfRuns,
};

const pause: JsonSchema = {
  description: 'null unless the pipeline is paused. No run of a paused pipeline starts.',
  type: ['object', 'null'],
  additionalProperties: false,
  required: ['since', 'reason'],
  properties: {
    since: { type: 'string', format: 'date-time' },
    reason: { type: ['string', 'null'] },
  },
};

const pipelineState: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['pipeline_id', 'paused'],
  properties: { pipeline_id: { type: 'string' }, paused: schemaRef('Pause') },
};

const finding: JsonSchema = {
  description: 'A validation finding and its location.',
  type: 'object',
  additionalProperties: false,
  required: ['severity', 'code', 'message', 'file', 'pointer', 'line', 'column'],
  properties: {
    severity: { enum: ['error', 'warning'] },
    code: { type: 'string', pattern: '^[a-z0-9_]+$' },
    message: { type: 'string' },
    file: { type: ['string', 'null'] },
    pointer: { description: 'JSON Pointer, or path of keys.', type: ['string', 'null'] },
    line: { type: ['integer', 'null'], minimum: 1 },
    column: { type: ['integer', 'null'], minimum: 1 },
  },
};

const sceneMapReport: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  required: ['schema_version', 'valid', 'clean', 'files'],
  properties: {
    schema_version: { const: 1 },
    valid: { description: 'No errors: the document conforms to the schema.', type: 'boolean' },
    clean: { description: 'No findings.', type: 'boolean' },
    files: {
      type: 'array',
      items: {
        type: 'object',
        additionalProperties: false,
        required: ['file', 'valid', 'findings'],
        properties: {
          file: { type: 'string' },
          valid: { type: 'boolean' },
          findings: { type: 'array', items: schemaRef('Finding') },
        },
      },
    },
  },
};

const problem: JsonSchema = {
  description: 'A problem document (RFC 9457).',
  type: 'object',
  additionalProperties: false,
  required: ['type', 'title', 'status', 'detail', 'instance', 'code', 'retryable'],
  properties: {
    type: { const: 'about:blank' },
    title: { description: 'Reason phrase of the status.', type: 'string' },
    status: { type: 'integer', minimum: 400, maximum: 599 },
    detail: {
      description: 'The cause and, after a semicolon, the `hint`, for clients that show only this member.',
      type: 'string',
    },
    hint: { description: 'What to do about the problem.', type: 'string' },
    instance: {
      description: 'Id of the request, as in `X-Request-Id` and in the log.',
      type: 'string',
      pattern: '^urn:uuid:[0-9a-f-]{36}$',
    },
    code: { description: 'Stable error code for programs.', enum: publicCodes },
    retryable: { description: 'Whether repeating the same request can succeed.', type: 'boolean' },
    findings: {
      description: 'All findings, for problems that can have several.',
      type: 'array',
      items: schemaRef('Finding'),
    },
    checks: {
      description: 'For readiness: the state of each dependency of the daemon.',
      type: 'array',
      items: schemaRef('HealthCheck'),
    },
    error: { description: 'OAuth error code. Only for token exchanges.', type: 'string' },
    error_description: { description: 'OAuth error description. Only for token exchanges.', type: 'string' },
  },
};

const healthCheck: JsonSchema = {
  description: 'State of one dependency of the daemon.',
  type: 'object',
  additionalProperties: false,
  required: ['name', 'state', 'since'],
  properties: {
    name: { enum: ['process', 'queue', 'staging', 'room', 'shared_staging', 'audit', 'weather'] },
    state: {
      description: '`degraded`: a problem that does not prevent uploads.',
      enum: ['ok', 'degraded', 'failing'],
    },
    since: {
      description: 'Time at which this state was first seen. The state is checked on each request.',
      type: 'string',
      format: 'date-time',
    },
    code: { description: 'Error code of the failure.', enum: publicCodes },
    detail: { description: 'Cause of the problem.', type: 'string' },
    hint: { description: 'What an administrator can do about it.', type: 'string' },
  },
};

function runRecordSchemaText(): string {
  return readFileSync(new URL('../../../schemas/run-record.schema.json', import.meta.url), 'utf8');
}

/** Returns a self-contained schema for the output of a command with `--format json`. */
function cliOutputSchemaText(kind: string): string {
  const file = new URL('../../../schemas/cli-output.schema.json', import.meta.url);
  const { $schema, $id, $defs } = JSON.parse(readFileSync(file, 'utf8')) as Record<string, string> & {
    $defs: Record<string, JsonSchema>;
  };
  const { [kind]: document, ...others } = $defs;
  const needed = new Set<string>();
  const visit = (schema: unknown): void => {
    for (const [, name = ''] of JSON.stringify(schema).matchAll(/"#\/\$defs\/([\w-]+)"/g)) {
      if (needed.has(name)) continue;
      needed.add(name);
      visit(others[name]);
    }
  };
  visit(document);
  const used = Object.fromEntries(Object.entries(others).filter(([name]) => needed.has(name)));
  return JSON.stringify({ $schema, $id, ...document, $defs: used });
}

/**
 * Converts a schema file to components. Its `$defs` become components as well, because some tools cannot
 * resolve a `$id` inside a document.
 */
function fromFile(name: string, text: string): Record<string, JsonSchema> {
  const componentOf = (def: string): string =>
    name + def.replaceAll(/(?:^|[_-])([a-z])/g, (_match, letter: string) => letter.toUpperCase());
  const { $schema, $id, $defs, ...schema } = JSON.parse(
    text.replaceAll(/"#\/\$defs\/([\w-]+)"/g, (_match, def: string) =>
      JSON.stringify(`#/components/schemas/${componentOf(def)}`),
    ),
  ) as { $schema?: string; $id?: string; $defs?: Record<string, JsonSchema> } & JsonSchema;
  if ($schema !== 'https://json-schema.org/draft/2020-12/schema' || $id === undefined)
    throw new TypeError(`the schema of ${name} is not one that OpenAPI 3.1 can hold`);
  const defs = Object.entries($defs ?? {}).map(([def, one]) => [componentOf(def), one] as const);
  return { [name]: schema, ...Object.fromEntries(defs) };
}
