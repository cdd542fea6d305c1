/** Generates `docs/limits.md`, which lists all fixed limits on input. The numbers are taken from the code. */
import { maxHeaderSize } from 'node:http';
import { statusOf } from '../src/api/http/answer/error-status.ts';
import { maxWaitingRequests, usualHeadersMs } from '../src/api/http/listen.ts';
import { smallBodyBytes } from '../src/api/http/request/request-body.ts';
import { maxSeconds } from '../src/api/runs/run-route.ts';
import { maxRequestBytes as maxSceneMapRequestBytes } from '../src/api/scene-maps/document-body.ts';
import { maxMissingBytes } from '../src/api/uploads/missing-route.ts';
import { maxExpansion, ratioMattersAfter } from '../src/core/bundle/archive/gzip.ts';
import { maxListedFiles, maxPathSegments } from '../src/core/bundle/limits.ts';
import { maxManifestBytes } from '../src/core/bundle/manifest.ts';
import { maxCatalogBytes } from '../src/core/catalog/catalog.ts';
import { maxConfigBytes } from '../src/core/config/load-config.ts';
import { minCharacters } from '../src/core/config/secret-references.ts';
import type { ErrorCode } from '../src/core/lib/error-codes.ts';
import { maxPathBytes, maxSegmentBytes } from '../src/core/lib/paths.ts';
import { maxSecretBytes } from '../src/core/lib/secrets.ts';
import { maxUndelivered } from '../src/core/notify/outbox.ts';
import { maxListBytes } from '../src/core/publish/results/occurrences.ts';
import { maxSceneMapBytes } from '../src/core/scene-map/check-in-bundle.ts';
import {
  maxDepth as maxListedDepth,
  maxListed,
  maxListedBytes,
  maxNameUnits,
} from '../src/core/storage/untrusted.ts';

type Row = readonly [limit: string, value: string, beyond: string];

const fixed: Readonly<Record<string, readonly Row[]>> = {
  'Bundles and archives': [
    ['files in a bundle', number(maxListedFiles), '`invalid_bundle`, `too_many_files`'],
    ['`manifest.json`', bytes(maxManifestBytes), '`invalid_bundle`'],
    ['path, in UTF-8', bytes(maxPathBytes), '`invalid_bundle`, `unsafe_archive_entry`'],
    ['path segment', bytes(maxSegmentBytes), 'as for a path'],
    ['segments per path', number(maxPathSegments), 'as for a path'],
    [
      'extracted size of an archive',
      `${maxExpansion} times its size, after the first ${bytes(ratioMattersAfter)}`,
      '`archive_bomb`',
    ],
    ['scene map in a bundle', bytes(maxSceneMapBytes), '`invalid_bundle`'],
  ],
  'Sources and destinations': [
    ['names in a listing', number(maxListed), '`storage_permanent`'],
    ['all names of a listing, in memory', bytes(maxListedBytes), '`storage_permanent`'],
    ['path in a listing', `${number(maxNameUnits)} characters`, '`storage_permanent`'],
    ['nested directories', number(maxListedDepth), '`storage_permanent`'],
  ],
  Requests: [
    ['request headers', bytes(maxHeaderSize), answered('headers_too_large')],
    ['time to receive the headers', `${usualHeadersMs / 1000} s`, answered('request_timeout')],
    ['pipelined requests of a connection', `${maxWaitingRequests}`, 'the connection is closed'],
    ['`Idempotency-Key`', '255 characters', answered('invalid_idempotency_key')],
    ['JSON body', bytes(smallBodyBytes), answered('invalid_request')],
    ['manifest sent to `/missing`', bytes(maxMissingBytes), answered('upload_too_large')],
    [
      'scene map sent to `/v1/scene-maps/validate`',
      bytes(maxSceneMapRequestBytes),
      answered('upload_too_large'),
    ],
    ['`GET /runs/{run_id}?wait=`', `${maxSeconds} s`, answered('invalid_parameter')],
  ],
  'Configuration and secrets': [
    ['configuration file', bytes(maxConfigBytes), '`config_invalid`'],
    ['file in `secrets.directory`', bytes(maxSecretBytes), '`secrets_invalid`'],
    ['upload token, admin token', `at least ${minCharacters} characters`, '`weak_token`'],
  ],
  Retention: [
    ['catalog', bytes(maxCatalogBytes), '`catalog_too_large`'],
    [
      'output list of an event',
      bytes(maxListBytes),
      'truncated; `outputs_omitted` has the number of missing outputs',
    ],
    ['undelivered events kept per notifier', number(maxUndelivered), 'the oldest are removed'],
  ],
};

export function limitsReference(): string {
  return `# Limits

These limits are fixed. [Settings](configuration.md#reference) and [scene maps](scene-map.md#findings) have
others.

${Object.entries(fixed)
  .map(([heading, rows]) => `## ${heading}\n\n${table(['limit', 'maximum', 'effect of exceeding it'], rows)}`)
  .join('\n\n')}
`;
}

/** Returns the HTTP status and the error code that clients of the daemon get. */
function answered(code: ErrorCode): string {
  return `${statusOf[code]} \`${code}\``;
}

function table(head: Row, rows: readonly Row[]): string {
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function number(value: number): string {
  return value.toLocaleString('en');
}

function bytes(value: number): string {
  if (value > 4096 && value % 2 ** 20 === 0) return `${number(value / 2 ** 20)} MiB`;
  return value > 4096 ? `${number(value / 2 ** 10)} KiB` : `${number(value)} bytes`;
}
