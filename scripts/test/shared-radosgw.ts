export interface SharedServer {
  /** What the environment of a file has to say about the server; starts it for the first that needs it. */
  variablesFor: (file: string) => Promise<Record<string, string>>;
  /** Ends the server if no other file needs it. */
  ended: (file: string) => Promise<void>;
}

/**
 * One S3 server for all files that need one: it takes longer to start than some of them take. If it cannot be
 * started, each file tries for itself, and says what is wrong.
 *
 * @param files that need it; one alone starts its own
 * @param directory for its data; undefined where the machine keeps nothing in memory
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
