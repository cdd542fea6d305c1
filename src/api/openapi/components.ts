import { readFileSync } from 'node:fs';
import { type ErrorCode, errorTable } from '../../core/lib/error-codes.ts';
import { sceneMapSchemaText } from '../../core/scene-map/schema-file.ts';
import { isConcealed } from '../http/answer/error-status.ts';
import { type JsonSchema, schemaRef } from '../http/route.ts';

/** The schemas that routes reference with `schemaRef`. Some are read from `schemas/`. */
export function componentSchemas(): Record<string, JsonSchema> {
  return {
    ...fromFile('RunRecord', runRecordSchemaText()),
    ...fromFile('SceneMap', sceneMapSchemaText()),
    ...fromFile('Plan', cliOutputSchemaText('run')),
    ...fromFile('Releases', cliOutputSchemaText('releases')),
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

/** The codes that clients get; all others become `internal_error`. */
export const publicCodes = (Object.keys(errorTable) as ErrorCode[]).filter(
  (code) => !isConcealed(code) || code === 'internal_error',
);

const accepted: JsonSchema = {
  description: 'A run that was accepted. Its record is under `Location`.',
  type: 'object',
  additionalProperties: false,
  required: ['run_id', 'status'],
  properties: {
    run_id: { type: 'string' },
    status: { const: 'accepted' },
    position: {
      description:
        'Its place in the line of its pipeline when it was accepted: 1 where no other run of the pipeline waited. A run that runs is not in the line.',
      type: 'integer',
      minimum: 1,
    },
  },
};

const missingFiles: JsonSchema = {
  description: 'What of a bundle has to be sent.',
  type: 'object',
  additionalProperties: false,
  required: ['manifest', 'missing'],
  properties: {
    manifest: { description: 'Of the manifest that was sent: what `Waybill-Partial` names.', type: 'string' },
    missing: {
      description: 'Digests of files that are not kept for the pipeline, each once.',
      type: 'array',
      items: { type: 'string', pattern: '^sha256:[0-9a-f]{64}$' },
    },
  },
};

const partialUpload: JsonSchema = {
  description: 'A resumable upload. Once its run is accepted, `run_id` and what follows tell of that.',
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
    offset: { description: 'Where to go on, in bytes.', type: 'integer', minimum: 0 },
    length: { description: 'Bytes of the archive; null until that is known.', type: ['integer', 'null'] },
    expires_at: { type: 'string', format: 'date-time' },
    idempotency_key: {
      description: 'The key that it was begun with; null if there was none.',
      type: ['string', 'null'],
    },
    metadata: {
      description: '`Upload-Metadata` that it was begun with, decoded; null if there was none.',
      type: ['object', 'null'],
      additionalProperties: { type: ['string', 'null'] },
    },
    run_id: { type: ['string', 'null'] },
    position: { description: 'As in `Accepted`.', type: ['integer', 'null'], minimum: 1 },
    replayed: { description: 'The key was used before: the run is the one of then.', type: 'boolean' },
  },
};

const pageOfRuns = {
  runs: { type: 'array', items: schemaRef('RunRecord') },
  next: {
    description: 'Path and query of the next page; null where this is the last one.',
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
  description: 'Null unless the pipeline is paused: then none of its runs begins.',
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
  description: 'One result of a validation: what is wrong or worth knowing, and where.',
  type: 'object',
  additionalProperties: false,
  required: ['severity', 'code', 'message', 'file', 'pointer', 'line', 'column'],
  properties: {
    severity: { enum: ['error', 'warning'] },
    code: { type: 'string', pattern: '^[a-z0-9_]+$' },
    message: { type: 'string' },
    file: { type: ['string', 'null'] },
    pointer: { description: 'JSON Pointer or path of keys.', type: ['string', 'null'] },
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
    valid: { description: 'No errors: the document is a scene map under the schema.', type: 'boolean' },
    clean: { description: 'No findings at all.', type: 'boolean' },
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
    title: { description: 'The phrase of the status.', type: 'string' },
    status: { type: 'integer', minimum: 400, maximum: 599 },
    detail: {
      description: 'What is wrong and, after a semicolon, the `hint`, for whoever shows nothing else.',
      type: 'string',
    },
    hint: { description: 'What to do about it, by itself.', type: 'string' },
    instance: {
      description: "The request's id, as in `X-Request-Id` and in the log.",
      type: 'string',
      pattern: '^urn:uuid:[0-9a-f-]{36}$',
    },
    code: { description: 'For programs; never changes its meaning.', enum: publicCodes },
    retryable: { description: 'Whether sending the same again can help.', type: 'boolean' },
    findings: {
      description: 'Every single thing that is wrong, where there can be several.',
      type: 'array',
      items: schemaRef('Finding'),
    },
    checks: {
      description: 'Of readiness: what the daemon depends on, and how each stands.',
      type: 'array',
      items: schemaRef('HealthCheck'),
    },
    error: { description: 'Of a token exchange: the error code of OAuth.', type: 'string' },
    error_description: { description: 'Of a token exchange: the error.', type: 'string' },
  },
};

const healthCheck: JsonSchema = {
  description: 'How one thing stands that the daemon depends on.',
  type: 'object',
  additionalProperties: false,
  required: ['name', 'state', 'since'],
  properties: {
    name: { enum: ['process', 'queue', 'staging', 'room', 'shared_staging', 'weather'] },
    state: {
      description: '`degraded`: something is missing, and uploads are taken all the same.',
      enum: ['ok', 'degraded', 'failing'],
    },
    since: {
      description: 'When it was first seen so. It is looked at whenever somebody asks.',
      type: 'string',
      format: 'date-time',
    },
    code: { description: 'Of the failure.', enum: publicCodes },
    detail: { description: 'What is wrong.', type: 'string' },
    hint: { description: 'What an operator does about it.', type: 'string' },
  },
};

function runRecordSchemaText(): string {
  return readFileSync(new URL('../../../schemas/run-record.schema.json', import.meta.url), 'utf8');
}

/** The output of a command with `--format json` as a separate schema, with its references. */
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
 * Turns a schema file into components. Its `$defs` become components too, because some tools do not follow a
 * `$id` inside a document.
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
