/** The modules of long-running programs and threads that are loaded by their name; without an extension. */
export const programEntries = [
  'cli/commands/serve/serve',
  'cli/commands/weather/feed',
  'cli/commands/weather/weather',
  'cli/commands/worker/worker',
  'workers/disk/disk-thread',
  'workers/embedded/file-reader',
  'workers/threads/thread',
];
