export interface SharedServer {
  /** Returns the environment of a file that uses the server. Starts the server on first use. */
  variablesFor: (file: string) => Promise<Record<string, string>>;
  /** Ends the server if no other file needs it. */
  ended: (file: string) => Promise<void>;
}

/**
 * One S3 server for all files that need it: starting it takes longer than some of them run. If it cannot be
 * started, each file tries itself and reports the reason.
 *
 * @param files the files that need it; a single one starts its own
 * @param directory for its data; undefined if nothing is kept in memory
 */
export function shareRadosgw(files: readonly string[], directory: string | undefined): SharedServer {
  const left = new Set(files.length > 1 ? files : []);
  const releases: (() => unknown)[] = [];
  let started: Promise<Record<string, string>> | undefined;
  const start = async (): Promise<Record<string, string>> => {
    const { sharedRadosgw, startOwnRadosgw } = await import('../../test/services/radosgw.ts');
    const test = { teardown: (release: () => unknown): unknown => releases.unshift(release) };
    const { port, endpoint, user } = await startOwnRadosgw(test, directory);
    return { [sharedRadosgw]: JSON.stringify({ port, endpoint, user }) };
  };
  return {
    variablesFor: async (file) => {
      if (!left.has(file)) return {};
      return (started ??= start().catch(() => ({})));
    },
    ended: async (file) => {
      if (!left.delete(file) || left.size > 0) return;
      await started;
      for (const release of releases) await release();
    },
  };
}
