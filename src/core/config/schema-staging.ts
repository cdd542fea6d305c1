import joi from 'joi';
import { choice, expects, map, path } from '../settings/kinds.ts';

/**
 * What `server.staging` may be besides a plain directory; made by `schema.ts` from the same settings as
 * sources and destinations.
 */
export interface StagingLocations {
  sftp: joi.ObjectSchema;
  s3: joi.ObjectSchema;
}

/** A directory, or in bullmq mode any storage that all hosts reach. */
export function stagingSchema(locations: StagingLocations): joi.AlternativesSchema {
  const directory = map({
    backend: choice('local')
      .default('local')
      .description('A directory of this machine, or one that all hosts share.'),
    directory: path()
      .default('./staging')
      .description(
        'Directory of staged uploads; it needs room for queue_size bundles. With the queue in memory it belongs to the daemon alone; with bullmq all hosts share it, for example over NFS.',
      ),
  });
  const cases = Object.entries(locations).map(([name, then]) => ({ is: name, then: then as joi.Schema }));
  return expects(
    joi.alternatives().conditional('.backend', { switch: cases, otherwise: directory }),
    'a map with the key directory, or with backend: sftp or s3 and what belongs to it',
  );
}
