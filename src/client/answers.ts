import { WaybillError } from '../core/lib/errors.ts';
import type {
  Accepted,
  MissingFiles,
  PartialUpload,
  PipelineList,
  Plan,
  Release,
  ReleaseDiff,
  Releases,
  ReleaseSwitch,
  RunRecord,
  RunSearch,
} from './generated/api-types.ts';
import { fields, flag, list, number, optional, orNull, type Shape, text } from './shape.ts';
import type { TokenAnswer } from './token-source.ts';

/* Checks the answers of a daemon. */

/** Returns the body if it is valid. Otherwise throws an `unexpected_answer` error that names the URL. */
export function requireShape<T>({ body, url }: { body: unknown; url: URL }, shape: Shape<T>): T {
  const fault = shape(body);
  if (fault === null) return body as T;
  const what = fault === '' ? 'is not the expected JSON document' : `has no valid ${fault}`;
  throw unexpectedAnswer(url, what);
}

/** Creates the error for a response that does not come from a daemon. `what` says what is wrong with it. */
export function unexpectedAnswer({ origin, pathname }: URL, what: string, cause?: unknown): WaybillError {
  return new WaybillError(
    'unexpected_answer',
    `${origin} does not answer like a waybill daemon: the answer of ${pathname} ${what}`,
    { hint: 'check the URL, including server.http.base_path of the daemon if it is set', cause },
  );
}

const finding = fields({ message: text });
const error = fields({ code: text, message: text, hint: orNull(text), findings: list(finding) });
const reason = orNull(fields({ code: text, message: text }));

/** The body of `GET /runs/{run_id}`. */
export const runRecord: Shape<RunRecord> = fields({
  run_id: text,
  pipeline_id: text,
  status: text,
  accepted_at: text,
  finished_at: orNull(text),
  attempt: number,
  next_try_at: orNull(text),
  last_error: orNull(error),
  progress: orNull(
    fields({
      stage: text,
      outputs_done: number,
      outputs_total: number,
      bytes_done: number,
      bytes_total: number,
    }),
  ),
  error: orNull(error),
  destinations: list(
    fields({
      destination_id: text,
      action: text,
      reason,
      destination_path: orNull(text),
      release: orNull(text),
      outputs_written: number,
      outputs_linked: number,
      outputs_kept: number,
      outputs_removed: number,
      bytes_written: number,
      error: orNull(error),
    }),
  ),
  warnings: list(fields({ destination_id: orNull(text), code: text, message: text })),
  failed_deliveries: list(
    fields({ notifier_id: text, event_type: text, event_id: text, status: text, tries: number }),
  ),
});

/** The body of `POST v1/token`. */
export const issuedToken: Shape<TokenAnswer> = fields({
  access_token: text,
  expires_in: number,
  publisher_id: text,
});

export const runPage: Shape<RunSearch> = fields({ runs: list(runRecord), next: orNull(text) });
export const acceptedAnswer: Shape<Accepted> = fields({ run_id: text, position: optional(orNull(number)) });

export const pipelineList: Shape<PipelineList> = fields({
  pipelines: list(
    fields({
      pipeline_id: text,
      source: fields({ backend: text }),
      destinations: list(fields({ destination_id: text, layout: text })),
      paused: orNull(fields({ reason: orNull(text) })),
      running: orNull(text),
      waiting: number,
      last_success: orNull(fields({ finished_at: text })),
    }),
  ),
});

export const partialUpload: Shape<PartialUpload> = fields({
  upload_id: text,
  offset: number,
  length: orNull(number),
  metadata: orNull(fields({})),
  run_id: orNull(text),
  position: orNull(number),
  replayed: flag,
});

export const uploadList: Shape<{ uploads: PartialUpload[] }> = fields({ uploads: list(partialUpload) });
export const missingFiles: Shape<MissingFiles> = fields({ manifest: text, missing: list(text) });

const action = fields({
  action: text,
  destination_path: orNull(text),
  changes: list(fields({})),
  reason,
  error: orNull(error),
});

export const plan: Shape<Plan> = fields({
  pipelines: list(
    fields({
      status: text,
      error: orNull(error),
      destinations: list(fields({ destination_id: text, actions: list(action), error: orNull(error) })),
    }),
  ),
});

const releaseFields = {
  id: text,
  state: text,
  is_current: flag,
  channels: list(text),
  bundle: orNull(fields({ path: text })),
  outputs: orNull(number),
  bytes: orNull(number),
  activated_at: orNull(text),
};

export const releaseList: Shape<Releases> = fields({
  paths: list(
    fields({
      destination_path: text,
      foreign_target: orNull(text),
      channels: list(fields({ name: text, release: orNull(text), expires_at: text })),
      releases: list(fields(releaseFields)),
    }),
  ),
});

export const shownRelease: Shape<Release> = fields({
  release: fields({ ...releaseFields, files: list(fields({ path: text, size: number, digest: text })) }),
  error: orNull(error),
});

export const releaseDiff: Shape<ReleaseDiff> = fields({
  from: text,
  to: orNull(text),
  added: list(text),
  changed: list(text),
  removed: list(text),
  same: number,
});

export const releaseSwitch: Shape<ReleaseSwitch> = fields({
  destination_path: text,
  from: orNull(text),
  to: orNull(text),
});
