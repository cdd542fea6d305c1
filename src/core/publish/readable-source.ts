import type { PipelineConfig } from '../config/config.ts';
import { WaybillError } from '../lib/errors.ts';
import type { SourceLocation } from '../storage/backends.ts';

/** The source location of a pipeline. Throws `usage` for an upload pipeline. Pure. */
export function readableSource({ id, source }: PipelineConfig): SourceLocation {
  if (source.backend !== 'http_upload') return source;
  throw new WaybillError('usage', `pipeline "${id}" accepts uploads and has no source to read`, {
    hint: 'choose a pipeline whose source is a local directory, SFTP or S3',
  });
}
