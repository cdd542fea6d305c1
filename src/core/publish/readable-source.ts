import type { PipelineConfig } from '../config/config.ts';
import { WaybillError } from '../errors.ts';
import type { SourceLocation } from '../storage/backends.ts';

/** The source of a pipeline that can be read; throws `usage` if the pipeline takes uploads. Pure. */
export function readableSource({ id, source }: PipelineConfig): SourceLocation {
  if (source.backend !== 'http_upload') return source;
  throw new WaybillError('usage', `pipeline "${id}" takes uploads and has no source to read`, {
    hint: 'name a pipeline whose source is a local directory, SFTP or S3',
  });
}
