import { choice, duration, map, path, size, variantsOr } from '../../lib/settings/kinds.ts';
import { resolvePath, type PathBase } from '../../lib/settings/values.ts';
import { allBackends, backendOf, type SourceLocation } from '../../storage/backends.ts';
import type { StagingDocument } from '../document.ts';
import { locationMap } from './locations.ts';

/**
 * `server.staging`. A queue in memory stages in a directory of this machine, which the program uses as such
 * and not through a storage; a queue in Redis stages in any storage that all hosts reach.
 */
export const thisMachine = 'local';

const remote = allBackends.filter(({ name }) => name !== thisMachine);

/** `server.staging.keep` where nothing is said. */
export const defaultKeep = { age: '7d' };

const keep = map({
  size: size({ atLeast: 0 })
    .description(
      'Room that the kept files of one pipeline may take; what was not of use for longest goes first. Without it twice the max_upload_size of the pipeline: the largest bundle that it takes, and what changes in the next one. 0 keeps none, and every upload has to be whole.',
    )
    .example('4GiB'),
  age: duration({ atLeast: '1s', atMost: '366d' })
    .default(defaultKeep.age)
    .description('How long a file is kept that no upload had any use for.'),
}).description(
  'Files of bundles that were uploaded, by digest and for each pipeline, so that a producer sends only what has changed. They are hard links to what is staged, on the disk of this machine (with bullmq, in queue.scratch_directory of each host with an API), and the first to go where that has less than a tenth, or 1 GiB, free.',
);

const directory = map({
  keep: keep.default(),
  backend: choice(thisMachine)
    .default(thisMachine)
    .description('A directory of this machine, or one that all hosts share.'),
  directory: path()
    .default('./staging')
    .description(
      'Directory of staged uploads; it needs room for queue_size bundles. With the queue in memory it belongs to the daemon alone; with bullmq all hosts share it, for example over NFS.',
    ),
});

export const stagingSchema = variantsOr(
  'backend',
  Object.fromEntries(
    remote.map((backend) => [backend.name, locationMap(backend, {}, { keep: keep.default() })]),
  ),
  {
    otherwise: directory,
    expected: `a map with the key directory, or with backend: ${remote.map(({ name }) => name).join(' or ')} and what belongs to it`,
  },
);

/** Whether the value of `server.staging.backend` is one that only a queue of several hosts can use. */
export function isRemoteStaging(backend: string): boolean {
  return remote.some(({ name }) => name === backend);
}

export function resolveStaging(staging: StagingDocument, base: PathBase): SourceLocation {
  if (staging.backend === thisMachine)
    return { backend: thisMachine, path: resolvePath(staging.directory, base) };
  return backendOf(staging).resolve(staging, base);
}

/** The directory of this machine that staging is: `relations.ts` refuses any other for a queue in memory. */
export function stagingDirectory(location: SourceLocation): string {
  if (location.backend === thisMachine) return location.path;
  throw new Error(`the checks accepted staging in ${location.backend} with a queue in memory`);
}
